-- Refuses every construct that Quarto and plain pandoc render differently, and what would make a
-- page that is broken or hard to read.  Runs first; each finding becomes a warning of the form
-- "words to look for <tab> message", and pandoc.py turns any warning into an error.

local CALLOUTS = {"callout-note", "callout-tip", "callout-warning", "callout-important", "callout-caution"}
local THEOREMS = pandoc.List {
  "thm", "lem", "cor", "prp", "cnj", "def", "exm", "exr", "sol", "rem", "alg", "prf", "vid", "dia",
}

-- What each kind of element may carry.
local ALLOWED = {
  Div = {
    classes = pandoc.List {"panel-tabset", "answers", "explore", "facts", "ledger", "worked", table.unpack(CALLOUTS)},
    attributes = pandoc.List {"title", "collapse", "layout-ncol"},
  },
  Header = {classes = pandoc.List {"unnumbered", "unlisted", "own-page"}, attributes = pandoc.List {}},
  Image = {classes = pandoc.List {}, attributes = pandoc.List {"fig-alt", "width"}},
  Span = {classes = pandoc.List {"smallcaps", "underline", "mark"}, attributes = pandoc.List {}},
  Table = {classes = pandoc.List {}, attributes = pandoc.List {"tbl-colwidths"}},
  CodeBlock = {classes = nil, attributes = pandoc.List {"lst-cap"}},
  Code = {classes = nil, attributes = pandoc.List {}},
}

local function refuse(needle, message) pandoc.log.warn(needle .. "\t" .. message) end

local function check_carried(element, needle)
  local allowed = ALLOWED[element.t]
  for _, class in ipairs(element.classes) do
    if allowed.classes and not allowed.classes:includes(class) then
      refuse(class, "class ." .. class .. " on a " .. element.t .. " is outside the shared subset; remove it")
    end
  end
  for name in pairs(element.attributes) do
    if not allowed.attributes:includes(name) then
      refuse(name, "attribute " .. name .. " on a " .. element.t .. " is outside the shared subset; remove it")
    end
  end
  local kind = element.identifier:match("^(%a+)%-")
  if kind and THEOREMS:includes(kind) then
    refuse("#" .. element.identifier, "label #" .. element.identifier .. ": Quarto takes " .. kind
      .. "- for a theorem, pandoc does not; use another word")
  end
end

-- A path that both renderers find: below the folder of the main document.
local function is_below(path)
  return not (path:match("^/") or path:match("^%.%./") or path:match("/%.%./") or path:match("^%a[%w+.-]*:"))
end

local function image(img)
  check_carried(img)
  if (img.attributes["fig-alt"] or ""):match("^%s*$") then
    refuse(img.src, 'image ' .. img.src .. ' without words for those who cannot see it; add {fig-alt="…"}')
  end
  if not is_below(img.src) then
    refuse(img.src, "image " .. img.src .. " must be a file below the folder of the main document")
  end
end

-- The folder with the rows behind the figures, which is published beside the page.
local data
-- The explorer, which is published there, too; links to it name a view.
local explorer

local function link(element)
  local target = element.target
  if data and target:sub(1, #data + 1) == data .. "/" then return end
  if explorer and target:sub(1, #explorer + 1) == explorer .. "#" then return end
  if not (target:match("^https?://") or target:match("^mailto:") or target:match("^#.")) then
    refuse(target, "link to " .. target .. " breaks when the page is moved; link to https://… or to a #label")
  end
end

local LOADERS = {"<script", "<link", "<iframe", "<img", "<object", "<embed", "<video", "<audio", "src%s*=", "@import", "url%("}

local function raw(element)
  local first_line = element.text:match("[^\n]*")
  if element.format ~= "html" and element.format ~= "html5" then
    refuse(first_line, "raw " .. element.format .. " is lost on the page; write Markdown")
  end
  for _, pattern in ipairs(LOADERS) do
    if element.text:lower():match(pattern) then
      refuse(first_line, "raw HTML that runs or loads something (" .. pattern:gsub("%%s%*=", "=") .. "); use Markdown")
    end
  end
end

local function code(element)
  check_carried(element)
  if element.text:match("^{%a+}%s") then
    refuse(element.text, "inline code that runs, `" .. element.text .. "`; put the value in _variables.yml, use {{< var >}}")
  end
end

-- Markup that pandoc did not recognise and left as text.
local function text(str)
  local word = str.text
  if word:match("^:::") then
    refuse(word, word .. " stands in the text; put an empty line above the ::: block")
  elseif word:match("^{[#.]") and not word:match("^{#eq%-") then
    refuse(word, word .. " belongs to nothing; put it right behind its heading, image or caption")
  elseif word:match("%[%^[^%]]*%]") then
    refuse(word:match("%[%^[^%]]*%]"), "footnote " .. word:match("%[%^[^%]]*%]") .. " has no text; add a line " .. word:match("%[%^[^%]]*%]") .. ": …")
  elseif word:match("^https?://") then
    refuse(word, "bare address " .. word .. "; write <" .. word .. "> or [words](" .. word .. ")")
  end
end

local function glued_list(inlines)
  for i = 1, #inlines - 2 do
    local bullet, space, word = inlines[i + 1], inlines[i + 2], inlines[i + 3]
    if inlines[i].t == "SoftBreak" and bullet.t == "Str" and space and space.t == "Space"
       and (bullet.text:match("^[-*+]$") or bullet.text:match("^1[.)]$")) then
      local needle = bullet.text .. " " .. (word and word.t == "Str" and word.text or "")
      refuse(needle, "a list needs an empty line above it")
    end
  end
end

local function is_callout(div)
  return div.classes:find_if(function(class) return class:match("^callout%-") end) ~= nil
end

local function div(element)
  check_carried(element)
  local fold = element.attributes.collapse
  if fold and fold ~= "true" and fold ~= "false" then
    refuse('collapse="' .. fold .. '"', "collapse must be true or false")
  end
  if element.classes:includes("panel-tabset") and not (element.content[1] and element.content[1].t == "Header") then
    refuse("panel-tabset", "a panel-tabset begins with the heading of its first tab")
  end
end

-- Headings of the page; those in callouts and tabsets are titles, not sections.
local function check_heading_order(blocks)
  local above = 1
  blocks:walk {
    traverse = "topdown",
    Div = function(element)
      if is_callout(element) or element.classes:includes("panel-tabset") then return element, false end
    end,
    Header = function(heading)
      local words = pandoc.utils.stringify(heading)
      if heading.level == 1 then
        refuse(words, "heading '" .. words .. "': the title is the only heading of level 1; sections begin with ##")
      elseif heading.level > above + 1 then
        refuse(words, "heading '" .. words .. "' skips a level; use " .. ("#"):rep(above + 1))
      end
      above = math.max(heading.level, 1)
    end,
  }
end

local function check_anchors(doc)
  local known, wanted = {refs = true}, pandoc.List {}
  local function learn(element)
    local id = element.identifier
    if id == "" then return end
    if known[id] then refuse("#" .. id, "label #" .. id .. " is used twice; rename one") end
    known[id] = true
  end
  doc:walk {
    Block = function(block) if block.identifier and block.identifier ~= "refs" then learn(block) end end,
    Inline = function(inline)
      if inline.t == "Link" and inline.target:match("^#.") then wanted:insert(inline.target) end
      if inline.identifier then learn(inline) end
    end,
  }
  for _, target in ipairs(wanted) do
    if not known[target:sub(2)] then refuse(target, "link to " .. target .. ": no such label on the page") end
  end
end

function Pandoc(doc)
  data = doc.meta.data and pandoc.utils.stringify(doc.meta.data)
  explorer = doc.meta.explorer and pandoc.utils.stringify(doc.meta.explorer)
  doc:walk {
    Image = image, Link = link, RawInline = raw, RawBlock = raw, Code = code, CodeBlock = code, Str = text,
    Inlines = glued_list, Div = div, Header = check_carried, Span = check_carried, Table = check_carried,
  }
  check_heading_order(doc.blocks)
  check_anchors(doc)
end
