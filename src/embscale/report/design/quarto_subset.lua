-- Quarto's numbered cross-references, floats, callouts and tabsets for plain pandoc.
-- Runs after check_subset.lua and before --citeproc.  Problems are warnings of the form
-- "words to look for <tab> message", which pandoc.py turns into errors.

-- The word on a label and the word of a reference, per kind of label.
local KINDS = {
  fig = {"Figure", "Figure"}, tbl = {"Table", "Table"}, lst = {"Listing", "Listing"},
  eq = {"Equation", "Equation"}, sec = {"Section", "Section"},
  nte = {"Note", "Note"}, tip = {"Tip", "Tip"}, wrn = {"Warning", "Warning"},
  imp = {"Important", "Important"}, cau = {"Caution", "Caution"},
}
-- Sections begin below the title, which is level 1.
local FIRST_LEVEL = 2

local HERE = pandoc.path.directory(PANDOC_SCRIPT_FILE)
local elements = dofile(pandoc.path.join {HERE, "elements.lua"})
if FORMAT == "typst" or FORMAT == "odt" then loadfile(pandoc.path.join {HERE, "elements_paper.lua"})(elements) end
local NBSP = elements.NBSP

local counters, labels, tabsets = {}, {}, 0

local function refuse(needle, message) pandoc.log.warn(needle .. "\t" .. message) end

local function kind_of(id)
  local kind = id:match("^(%a+)%-[%w_.-]+$")
  return kind and KINDS[kind] and kind
end

local function next_number(kind)
  counters[kind] = (counters[kind] or 0) + 1
  return tostring(counters[kind])
end

local function from_markdown(text) return pandoc.utils.blocks_to_inlines(pandoc.read(text, "markdown").blocks) end

-- Floats: figures, tables and listings with a number and a caption ---------------------------

local function float(id, words, blocks)
  local kind = kind_of(id)
  local number = next_number(kind)
  labels[id] = {number = number}
  local label = KINDS[kind][1] .. NBSP .. number
  if #words == 0 then
    refuse("#" .. id, label .. " (#" .. id .. ") has no caption; end its ::: block with a paragraph that says what it shows")
  end
  if kind == "tbl" then blocks = elements.scrolling(blocks, label) end
  return elements.figure(id, "float-" .. kind, elements.labelled(label, words), blocks, kind ~= "fig")
end

local function subfigures(blocks, parent)
  local letters = 0
  return blocks:walk {
    Figure = function(fig)
      if kind_of(fig.identifier) ~= "fig" then return nil end
      letters = letters + 1
      labels[fig.identifier] = {number = parent .. NBSP .. "(" .. elements.letter(letters) .. ")"}
      return elements.part(fig.identifier, letters, pandoc.utils.blocks_to_inlines(fig.caption.long), fig.content)
    end,
  }
end

-- The caption of a ::: float is its last paragraph, unless that is an image.
local function take_caption(blocks)
  local last = blocks[#blocks]
  if last and last.t == "Para" and not (#last.content == 1 and last.content[1].t == "Image") then
    blocks:remove(#blocks)
    return last.content
  end
  return pandoc.Inlines {}
end

local function float_div(div)
  local blocks, words = div.content, take_caption(div.content)
  local columns = div.attributes["layout-ncol"]
  if #blocks == 0 then
    refuse("#" .. div.identifier, "#" .. div.identifier .. " is empty; put its figure or table above the caption")
  end
  local parent = tostring((counters[kind_of(div.identifier)] or 0) + 1)
  blocks = subfigures(blocks, parent)
  if columns then blocks = elements.columns(blocks, columns) end
  return float(div.identifier, words, blocks)
end

local function set_widths(tbl)
  local widths = pandoc.List {}
  for width in (tbl.attributes["tbl-colwidths"] or ""):gmatch("[%d%.]+") do widths:insert(tonumber(width)) end
  tbl.attributes["tbl-colwidths"] = nil
  local sum = 0
  for _, width in ipairs(widths) do sum = sum + width end
  for i, spec in ipairs(tbl.colspecs) do
    -- Quarto lets columns follow their content unless they are told otherwise.
    tbl.colspecs[i] = {spec[1], widths[i] and widths[i] / sum or nil}
  end
end

local function table_block(tbl)
  tbl = elements.scopes(tbl)
  if tbl.attributes["tbl-colwidths"] then set_widths(tbl) end
  local id = tbl.identifier
  local words = pandoc.utils.blocks_to_inlines(tbl.caption.long)
  if kind_of(id) ~= "tbl" then return elements.scrolling({tbl}, #words > 0 and pandoc.utils.stringify(words) or "Table"), false end
  tbl.identifier, tbl.caption = "", {long = {}}
  return float(id, words, {tbl}), false
end

local function listing(code)
  if kind_of(code.identifier) ~= "lst" then return nil end
  local id, words = code.identifier, from_markdown(code.attributes["lst-cap"] or "")
  code.identifier, code.attributes["lst-cap"] = "", nil
  return float(id, words, {code}), false
end

local function figure(fig)
  if kind_of(fig.identifier) ~= "fig" then return nil end
  return float(fig.identifier, pandoc.utils.blocks_to_inlines(fig.caption.long), fig.content), false
end

-- Callouts and tabsets --------------------------------------------------------------------------

local function callout(div, kind)
  local number, words = nil, pandoc.Inlines {}
  if kind_of(div.identifier) then
    number = next_number(kind_of(div.identifier))
    labels[div.identifier] = {number = number}
  end
  local first = div.content[1]
  if div.attributes.title then
    words = from_markdown(div.attributes.title)
  elseif first and first.t == "Header" then
    words = first.content
    div.content:remove(1)
  end
  return elements.callout(div.identifier, kind, number, words, div.attributes.collapse, div.content)
end

local function tabset(div)
  tabsets = tabsets + 1
  local level, tabs = div.content[1] and div.content[1].level, pandoc.List {}
  for _, block in ipairs(div.content) do
    if block.t == "Header" and block.level == level then
      tabs:insert {title = block.content, blocks = pandoc.Blocks {}}
    elseif #tabs > 0 then
      tabs[#tabs].blocks:insert(block)
    end
  end
  return elements.tabset(div.identifier, "tabset-" .. tabsets, tabs)
end

local function div_block(div)
  local kind = kind_of(div.identifier)
  if kind == "fig" or kind == "tbl" or kind == "lst" then return float_div(div), false end
  if div.classes:includes("panel-tabset") then return tabset(div) end
  if div.classes:includes("ledger") then return elements.ledger(div) end
  for name in pairs(elements.CALLOUTS) do
    if div.classes:includes("callout-" .. name) then return callout(div, name) end
  end
end

-- Numbers ---------------------------------------------------------------------------------------

-- With the headings' numbers, the chapters for the navigation of a site: the sections of the first level.
local function number_headings(doc)
  local numbered, counts = doc.meta["number-sections"] == true, {}
  local chapters = pandoc.List {}
  local function number(heading)
    local depth = heading.level - FIRST_LEVEL + 1
    counts[depth] = (counts[depth] or 0) + 1
    for deeper = depth + 1, #counts do counts[deeper] = nil end
    -- A level that was skipped is a problem of its own, told elsewhere; counting must not stop at it.
    for above = 1, depth do counts[above] = counts[above] or 0 end
    return table.concat(counts, ".", 1, depth)
  end
  local walked = doc:walk {
    traverse = "topdown",
    -- Headings in callouts and tabsets are titles by now; what is left are sections.
    Header = function(heading)
      if heading.level < FIRST_LEVEL then return nil end
      local label = {words = heading.content}
      if numbered and not heading.classes:includes("unnumbered") then
        label = {number = number(heading)}
        heading.attributes.number = label.number
      end
      labels[heading.identifier] = label
      if heading.level == FIRST_LEVEL then
        chapters:insert {url = heading.identifier .. ".html", title = heading.content, number = label.number}
      end
      return heading
    end,
  }
  walked.meta.chapters = chapters
  return walked
end

-- $$ … $$ {#eq-x}: pandoc leaves the label as text behind the formula.
local function equations(inlines)
  local out, i, found = pandoc.Inlines {}, 1, false
  while i <= #inlines do
    local math, space, tag = inlines[i], inlines[i + 1], inlines[i + 2]
    if space and space.t == "Str" then tag = space end
    local id = math.t == "Math" and math.mathtype == "DisplayMath" and tag and tag.t == "Str"
      and tag.text:match("^{#(eq%-[%w_-]+)}$")
    if id then
      found = true
      local number = next_number("eq")
      labels[id] = {number = number}
      local mark = pandoc.Span({pandoc.Str("(" .. number .. ")")}, pandoc.Attr("", {"eq-number"}))
      out:insert(pandoc.Span({math, mark}, pandoc.Attr(id, {"equation"})))
      i = i + (tag == space and 2 or 3)
    else
      if math.t == "Str" and math.text:match("^{#eq%-") then
        refuse(math.text, math.text .. " belongs right behind the closing $$ of its formula")
      end
      out:insert(math)
      i = i + 1
    end
  end
  return found and out or nil
end

-- References -------------------------------------------------------------------------------------

local function reference(citation)
  local label = labels[citation.id]
  if not label then
    refuse("@" .. citation.id, "@" .. citation.id .. ": no such label; give it to a figure, table, section or equation")
    return pandoc.Inlines {}
  end
  local words
  if not label.number then
    words = label.words
  elseif citation.mode == "SuppressAuthor" then
    words = pandoc.Inlines {pandoc.Str(label.number)}
  elseif #citation.prefix > 0 then
    -- Quarto puts the prefix in the place of its own word: [Fig. @fig-x].
    words = citation.prefix .. pandoc.Inlines {pandoc.Str(NBSP .. label.number)}
  else
    words = pandoc.Inlines {pandoc.Str(KINDS[kind_of(citation.id)][2] .. NBSP .. label.number)}
  end
  return pandoc.Inlines {pandoc.Link(words, "#" .. citation.id, "", pandoc.Attr("", {"quarto-xref"}))} .. citation.suffix
end

local function references(cite)
  local own = cite.citations:filter(function(citation) return kind_of(citation.id) end)
  if #own == 0 then return nil end
  if #own < #cite.citations then
    refuse("@" .. own[1].id, "one bracket mixes citations and cross-references; use two")
    return nil
  end
  local out = pandoc.Inlines {}
  for i, citation in ipairs(own) do
    if i > 1 then out:extend {pandoc.Str(","), pandoc.Space()} end
    out:extend(reference(citation))
  end
  return out
end

local function alternative_text(img)
  img.caption = pandoc.Inlines(img.attributes["fig-alt"] or "")
  img.attributes["fig-alt"] = nil
  return elements.drawing(img) or img
end

function Pandoc(doc)
  doc = doc:walk {Inlines = equations}
  doc = doc:walk {traverse = "topdown", Div = div_block, Figure = figure, Table = table_block, CodeBlock = listing}
  doc = doc:walk {Image = alternative_text}
  doc.meta.ledger = elements.has_ledger
  doc = number_headings(doc)
  return doc:walk {Cite = references}
end
