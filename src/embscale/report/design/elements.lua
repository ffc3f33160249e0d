-- The HTML of a report's floats, callouts, tabs and wide tables, which style.css styles.  Shared by
-- the filter for plain pandoc and the one for Quarto: what they number differs, what they show does not.

local elements = {has_ledger = false}

elements.NBSP = "\u{a0}"

-- The word on each kind of callout.
elements.CALLOUTS = {note = "Note", tip = "Tip", warning = "Warning", important = "Important", caution = "Caution"}

local function html(text) return pandoc.RawBlock("html", text) end

-- Tags around blocks, for elements that pandoc has no type for.
local function wrap(open, blocks, close)
  local wrapped = pandoc.Blocks {html(open)}
  wrapped:extend(blocks)
  wrapped:insert(html(close))
  return wrapped
end

-- "Figure 1: words"
function elements.labelled(label, words)
  local inlines = pandoc.Inlines {pandoc.Span({pandoc.Str(label)}, pandoc.Attr("", {"caption-label"}))}
  if #words > 0 then
    inlines:extend {pandoc.Str(":"), pandoc.Space()}
    inlines:extend(words)
  end
  return inlines
end

-- A wide table scrolls in its own box; the box can be reached with the keyboard and has a name.
function elements.scrolling(blocks, name)
  return pandoc.Blocks {pandoc.Div(blocks, pandoc.Attr("", {"table-box"}, {{"role", "region"}, {"tabindex", "0"}, {"aria-label", name}}))}
end

local PHONE = "-phone.svg" -- behind the name of a drawing for a phone, beside the other one

local function svg_of(path)
  local found, _, text = pcall(pandoc.mediabag.fetch, path)
  return found and text and text:match("<svg.*</svg>")
end

-- A drawing of which there is one for a phone, too, stands in the page itself: its words can be selected, and the
-- style gives it the colours of the dark and chooses between the two.  Other images stay as they are.
function elements.drawing(img)
  local phone = img.src:match("%.svg$") and svg_of((img.src:gsub("%.svg$", PHONE)))
  local wide = phone and svg_of(img.src)
  if not wide then return nil end
  local words = pandoc.utils.stringify(img.caption):gsub("&", "&amp;"):gsub('"', "&quot;"):gsub("<", "&lt;")
  local open = '<span class="drawing" role="img" aria-label="' .. words .. '">'
  return pandoc.RawInline("html", open .. '<span class="wide">' .. wide .. '</span><span class="narrow">' .. phone
    .. "</span></span>")
end

-- A reader who hears a table is told by each head of which cells it is.
function elements.scopes(tbl)
  for _, row in ipairs(tbl.head.rows) do
    for _, cell in ipairs(row.cells) do cell.attributes.scope = "col" end
  end
  for _, body in ipairs(tbl.bodies) do
    for _, row in ipairs(body.body) do
      for place = 1, body.row_head_columns do row.cells[place].attributes.scope = "row" end
    end
  end
  return tbl
end

-- The table of a ledger becomes a card a row on a phone: each cell knows the name of its column, and since a style
-- that lays rows out anew takes their roles, they are named.  A cell that opens with strong words is a verdict.
function elements.ledger(div)
  elements.has_ledger = true -- its page gets the script
  return div:walk {
    Table = function(tbl)
      local names = pandoc.List {}
      local function mark(row, role)
        row.attributes.role = "row"
        for place, cell in ipairs(row.cells) do
          local first = cell.contents[1] and cell.contents[1].content[1]
          cell.attributes.role = place == 1 and role == "cell" and "rowheader" or role
          if role == "columnheader" then
            names:insert(pandoc.utils.stringify(cell.contents))
          elseif place > 1 then
            cell.attributes["data-column"] = names[place]
            if first and first.t == "Strong" then cell.attributes["data-verdict"] = pandoc.utils.stringify(first) end
          end
        end
        return row
      end
      tbl.attributes.role, tbl.head.attributes.role = "table", "rowgroup"
      tbl.head.rows = pandoc.List(tbl.head.rows):map(function(row) return mark(row, "columnheader") end)
      for _, body in ipairs(tbl.bodies) do
        body.row_head_columns, body.attributes.role = 1, "rowgroup"
        body.body = pandoc.List(body.body):map(function(row) return mark(row, "cell") end)
      end
      return elements.scopes(tbl)
    end,
  }
end

function elements.figure(id, class, caption, blocks, caption_first)
  local words = wrap("<figcaption>", {pandoc.Plain(caption)}, "</figcaption>")
  local inside = caption_first and words or blocks
  inside = inside .. (caption_first and blocks or words)
  -- The label lies on an element that pandoc knows, so that it finds it from another page of a site.
  return pandoc.Div(wrap('<figure class="float ' .. class .. '">', inside, "</figure>"), pandoc.Attr(id))
end

-- The parts of a figure beside each other; below each other where there is no room.
function elements.columns(blocks, count)
  return pandoc.Blocks {pandoc.Div(blocks, pandoc.Attr("", {"columns-box"}, {style = "--columns:" .. count}))}
end

-- A part of a figure, with its letter.
function elements.part(id, place, words, blocks)
  local caption = pandoc.Inlines {pandoc.Str("(" .. elements.letter(place) .. ")"), pandoc.Space()}
  caption:extend(words)
  return elements.figure(id, "float-sub", caption, blocks, false)
end

-- a, b, c ... for 1, 2, 3 ...
function elements.letter(place) return string.char(96 + place) end

-- A callout's number, if it has a label, its own words if it has a title, and what its fold is: "true", "false" or nil.
function elements.callout(id, kind, number, words, fold, blocks)
  local label = elements.CALLOUTS[kind] .. (number and elements.NBSP .. number or "")
  local title = pandoc.Inlines {pandoc.Span({pandoc.Str(label)}, pandoc.Attr("", {"callout-kind"}))}
  if #words > 0 then title:insert(pandoc.Space()) end
  title:extend(words)
  local body = pandoc.Div(blocks, pandoc.Attr("", {"callout-body"}))
  local parts
  if fold then
    local opened = fold == "false" and " open" or ""
    parts = wrap("<details" .. opened .. '><summary class="callout-title">', {pandoc.Plain(title), html("</summary>"), body}, "</details>")
  else
    parts = {pandoc.Div({pandoc.Plain(title)}, pandoc.Attr("", {"callout-title"})), body}
  end
  return pandoc.Div(parts, pandoc.Attr(id, {"callout", "callout-" .. kind}, {role = "note"}))
end

-- One <details> per tab; their common name lets the browser keep one open, without a script.
function elements.tabset(id, name, tabs)
  local blocks = pandoc.Blocks {}
  for i, tab in ipairs(tabs) do
    local open = i == 1 and " open" or ""
    blocks:extend(wrap('<details name="' .. name .. '"' .. open .. "><summary>",
      {pandoc.Plain(tab.title), html("</summary>"), pandoc.Div(tab.blocks, pandoc.Attr("", {"tab-body"}))}, "</details>"))
  end
  return pandoc.Div(blocks, pandoc.Attr(id, {"tabset"}, {style = "--tabs:" .. #tabs}))
end

return elements
