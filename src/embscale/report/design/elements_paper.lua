-- The floats, callouts and tabs of a report on paper, for pandoc's writers of Typst and OpenDocument: the same functions
-- as elements.lua, which it changes in place.

local elements = ...

-- Blocks in one of the functions of paper.typ, or in a style of pandoc's own OpenDocument template.
local STYLES = {caption = "Caption", note = "Quotations"}

local function set(name, blocks)
  if FORMAT == "typst" then
    local inside = pandoc.Blocks {pandoc.RawBlock("typst", "#" .. name .. "[")}
    inside:extend(blocks)
    inside:insert(pandoc.RawBlock("typst", "]"))
    return inside
  elseif STYLES[name] then
    return pandoc.Blocks {pandoc.Div(blocks, pandoc.Attr("", {}, {["custom-style"] = STYLES[name]}))}
  end
  return pandoc.Blocks(blocks)
end

-- Typst fits an image into its line by itself.
function elements.drawing(img)
  if FORMAT ~= "typst" then img.attributes.width = "80%" end
  return img
end

function elements.scrolling(blocks) return pandoc.Blocks(blocks) end

function elements.columns(blocks) return pandoc.Blocks(blocks) end

-- A figure with its caption is kept on a page; a table may be broken.
function elements.figure(id, class, caption, blocks, caption_first)
  local words = set("caption", {FORMAT == "typst" and pandoc.Plain(caption) or pandoc.Para(caption)})
  local inside = caption_first and words .. blocks or blocks .. words
  return pandoc.Div(set(class == "float-fig" and "keep" or "part", inside), pandoc.Attr(id))
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
  return pandoc.Div(set("note", pandoc.Blocks {pandoc.Para(title)} .. blocks), pandoc.Attr(id))
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
