-- A report on paper: folds with the source of a figure and the test of a claim are left to the page, and a link that
-- leads out of the document stands in a footnote, where it can be read.  Runs last.

local function starts(block, text) return block.t == "RawBlock" and block.text:match("^%s*" .. text) end

local function without_folds(blocks)
  local kept, folded = pandoc.Blocks {}, false
  for _, block in ipairs(blocks) do
    if starts(block, "<details") then folded = true end
    if not folded then kept:insert(block) end
    if starts(block, "</details") then folded = false end
  end
  return kept
end

local function without_tests(inlines)
  local kept, folded = pandoc.Inlines {}, false
  for _, inline in ipairs(inlines) do
    local raw = inline.t == "RawInline" and inline.text or ""
    if raw:match("^<details") then folded = true end
    if not folded then kept:insert(inline) end
    if raw:match("^</details") then folded = false end
  end
  return kept
end

local function footnoted(link)
  if link.target:match("^#") then return nil end
  local words = pandoc.utils.stringify(link)
  if words == link.target then return nil end
  return pandoc.Inlines {pandoc.Span(link.content), pandoc.Note {pandoc.Plain {pandoc.Code(link.target)}}}
end

-- A view of the explorer, too, is left to the page.
local function without_views(div)
  if div.classes:includes("explore") then return pandoc.Blocks {} end
end

return {{Div = without_views}, {Blocks = without_folds, Inlines = without_tests}, {Link = footnoted}}
