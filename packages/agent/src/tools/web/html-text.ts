import { convert, type FormatCallback } from 'html-to-text'

/** Most columns or rows of one cell, and most places that the cells of a table take together. */
const maxSpan = 100
const maxPlaces = 100_000

interface Page {
  readonly html: string
  readonly baseUrl: string
  /** Longest input, in characters. */
  readonly maxLength: number
}

/** The readable text of a page. Slow or out of memory for some pages: call it by `HtmlThread`. */
export function htmlText({ html, baseUrl, maxLength }: Page): string {
  const skipped = ['nav', 'footer', 'aside', 'form', 'svg', 'img', 'noscript', 'template', 'iframe']
  const pathRewrite = (path: string) => URL.parse(path, baseUrl)?.href ?? path
  return convert(html, {
    baseElements: { selectors: ['main', 'article', 'body'], orderBy: 'selectors' },
    limits: { maxDepth: 100, maxInputLength: maxLength, maxBaseElements: 1 },
    wordwrap: false,
    formatters: { boundedTable },
    selectors: [
      ...skipped.map((selector) => ({ selector, format: 'skip' })),
      { selector: 'a', options: { pathRewrite, hideLinkHrefIfSameAsText: true, noAnchorUrl: true } },
      ...['h1', 'h2', 'h3', 'h4', 'h5', 'h6'].map((selector) => ({
        selector,
        options: { uppercase: false },
      })),
      { selector: 'table', format: 'boundedTable', options: { uppercaseHeaderCells: false } },
    ],
  }).trim()
}

/** The library makes room for as many columns and rows as a cell says that it spans. */
const boundedTable: FormatCallback = (element, walk, builder, options) => {
  let places = 0
  const left = [element]
  for (let node = left.pop(); node !== undefined; node = left.pop()) {
    if (node.name === 'td' || node.name === 'th') {
      const { attribs } = node
      const [columns, rows] = [spanOf(attribs.colspan), spanOf(attribs.rowspan)]
      places += columns * rows
      const isWithin = places <= maxPlaces
      attribs.colspan = String(isWithin ? columns : 1)
      attribs.rowspan = String(isWithin ? rows : 1)
    }
    for (const child of node.children ?? []) if (child.type === 'tag') left.push(child)
  }
  builder.options.formatters.dataTable?.(element, walk, builder, options)
}

function spanOf(text: string | undefined): number {
  const span = Number.parseInt(text ?? '', 10)
  return span >= 1 ? Math.min(span, maxSpan) : 1
}
