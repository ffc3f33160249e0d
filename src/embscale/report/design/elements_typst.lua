-- The floats, callouts and tabs of a report on paper, for pandoc's Typst writer: the same functions as elements.lua,
-- which it changes in place.

local elements = ...
local function typst(text) return pandoc.RawBlock("typst", text) end

function elements.drawing() end

function elements.scrolling(blocks) return pandoc.Blocks(blocks) end

function elements.columns(blocks) return pandoc.Blocks(blocks) end

-- A figure with its caption is kept on a page; a table may be broken.
function elements.figure(id, class, caption, blocks, caption_first)
  local words = pandoc.Blocks {typst("#caption["), pandoc.Plain(caption), typst("]")}
  local inside = pandoc.Blocks {typst(class == "float-fig" and "#keep[" or "#part[")}
  inside:extend(caption_first and words or blocks)
  inside:extend(caption_first and blocks or words)
  inside:insert(typst("]"))
  return pandoc.Div(inside, pandoc.Attr(id))
end

-- Whether anything may refer into these blocks.
local function has_label(id, blocks)
  local found = id ~= ""
  blocks:walk {Block = function(block) found = found or (block.identifier or ""):match("^%a+%-") ~= nil end}
  return found
end

-- What is folded on the page is left to it, if nothing refers to it.
function elements.callout(id, kind, number, words, fold, blocks)
  if fold == "true" and not has_label(id, blocks) then return pandoc.Blocks {} end
  local title = pandoc.Inlines {pandoc.Strong(#words > 0 and words or {pandoc.Str(elements.CALLOUTS[kind])})}
  local inside = pandoc.Blocks {typst("#note["), pandoc.Para(title)}
  inside:extend(blocks)
  inside:insert(typst("]"))
  return pandoc.Div(inside, pandoc.Attr(id))
end

function elements.tabset(id, _, tabs)
  local blocks = pandoc.Blocks {}
  for _, tab in ipairs(tabs) do
    blocks:insert(pandoc.Para {pandoc.Strong(tab.title)})
    blocks:extend(tab.blocks)
  end
  return pandoc.Div(blocks, pandoc.Attr(id))
end

function elements.ledger(div) return div end

return elements
