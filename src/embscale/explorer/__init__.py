"""The explorer: one page on which a reader chooses what is plotted and asks for the rows behind a point.

`payload` turns tidy rows into the data of the page, `page` sets them beside the page's own script and
the plotting library.  The page loads nothing: it works from a file, without a network.
"""
