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

-- OpenDocument: targets of links are in words alone, so that the first of a block takes its label; pandoc's writer
-- leaves out the numbers of sections, the title has a level of its own, and an author is a name.
local function bookmarked(div)
  local id = div.identifier
  if id == "" then return nil end
  local function mark(block)
    if id == "" then return nil end
    block.content:insert(1, pandoc.Span({}, pandoc.Attr(id)))
    id = ""
    return block
  end
  return div:walk {traverse = "topdown", Para = mark, Plain = mark}
end

local function numbered(heading)
  if heading.attributes.number then
    heading.content:insert(1, pandoc.Str(heading.attributes.number .. " "))
  end
  heading.level = math.max(heading.level - 1, 1)
  return heading
end

local function named(meta)
  if meta.author then
    meta.author = pandoc.List(meta.author):map(function(author) return author.name or author end)
  end
  return meta
end

local open_document = {Div = bookmarked, Header = numbered, Meta = named}

return {
  {Div = without_views}, {Blocks = without_folds, Inlines = without_tests}, {Link = footnoted},
  FORMAT == "odt" and open_document or {},
}
