-- Lets Quarto's page look and work as pandoc's does: runs in Quarto where everything has its number
-- and nothing is HTML yet, and gives floats, callouts, tabs and tables the elements of elements.lua.
-- Quarto's own need Bootstrap, hide the targets of links in folds, and do not fit a phone.

if not quarto.doc.is_format("html") then return {} end

local elements = dofile(quarto.utils.resolve_path("elements.lua"))
local blocks_of, inlines_of, words_of = quarto.utils.as_blocks, quarto.utils.as_inlines, pandoc.utils.stringify

local FLOATS = {fig = "Figure", tbl = "Table", lst = "Listing"}

local tabsets = 0

local function number_of(node) return node.order and words_of(node.order.order) end

-- Every table has a box when its float is met; there it is named by the float's label.
local function named_boxes(blocks, name)
  return blocks:walk {
    Div = function(div)
      if div.classes:includes("table-box") then
        div.attributes["aria-label"] = name
        return div
      end
    end,
  }
end

local function float(node)
  local kind, id = node.identifier:match("^(%a+)%-"), node.identifier
  if not FLOATS[kind] or not node.order then return nil end
  local words = node.caption_long and inlines_of(node.caption_long) or pandoc.Inlines {}
  local blocks, columns = blocks_of(node.content), node.attributes["layout-ncol"]
  if node.parent_id then return elements.part(id, node.order.order, words, blocks) end
  local label = FLOATS[kind] .. elements.NBSP .. number_of(node)
  if kind == "tbl" then blocks = named_boxes(blocks, label) end
  if columns then blocks = elements.columns(blocks, columns) end
  return elements.figure(id, "float-" .. kind, elements.labelled(label, words), blocks, kind ~= "fig")
end

local function callout(node)
  local title, blocks = inlines_of(node.title), blocks_of(node.content)
  return elements.callout(node.attr.identifier, node.type, number_of(node), title, node.collapse, blocks)
end

local function tabset(node)
  tabsets = tabsets + 1
  local tabs = pandoc.List {}
  for i = 1, #node.tabs do
    tabs:insert {title = inlines_of(node.tabs[i].title), blocks = blocks_of(node.tabs[i].content)}
  end
  return elements.tabset(node.attr.identifier, "tabset-" .. tabsets, tabs)
end

local function table_block(tbl)
  local words = words_of(pandoc.utils.blocks_to_inlines(tbl.caption.long))
  return elements.scrolling({elements.scopes(tbl)}, words ~= "" and words or "Table")
end

local function with_script(meta)
  meta.ledger = elements.has_ledger
  return meta
end

local function ledger(div)
  if div.classes:includes("ledger") then return elements.ledger(div) end
end

-- Authors in the form that the template reads.
local function authors(meta)
  if not meta["by-author"] then return nil end
  meta.author = pandoc.List(meta["by-author"]):map(function(person)
    local places = pandoc.List(person.affiliations or {}):map(function(place) return words_of(place.name) end)
    return {name = person.name.literal, affiliation = #places > 0 and table.concat(places, "; ") or nil}
  end)
  return meta
end

return {{FloatRefTarget = float, Callout = callout, Tabset = tabset, Image = elements.drawing, Div = ledger, Table = table_block, Meta = authors}, {Meta = with_script}}
