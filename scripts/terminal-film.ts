/** A screen of a terminal with its escape sequences of colours, and how long it is shown. */
export interface Frame {
  readonly screen: string
  readonly ms: number
}

interface FilmOptions {
  readonly columns: number
  readonly rows: number
  /** For those who do not see it. */
  readonly title: string
}

const cellWidth = 8.4
const lineHeight = 18
const margin = 14
/** Milliseconds that the last frame stays before the film begins again. */
const restMs = 4_000
const background = '#1c1f26'
const foreground = '#d8dee9'
/** Colours 30 to 37, and 90 to 97 for the bright ones. */
const palette = ['#4c566a', '#e06c75', '#98c379', '#e5c07b', '#61afef', '#c678dd', '#56b6c2', '#d8dee9']

/**
 * The frames as one animated SVG: a strip of all frames moves behind a window, in steps. Equal lines are
 * drawn once and used again.
 */
export function drawFilm(frames: readonly Frame[], { columns, rows, title }: FilmOptions): string {
  const width = Math.ceil(columns * cellWidth + 2 * margin)
  const height = rows * lineHeight + 2 * margin
  const ids = new Map<string, string>()
  const strip = frames.map(({ screen }, at) => {
    const lines = screen.split('\n').slice(0, rows)
    // A style continues in the next line.
    let style: Style = {}
    const uses = lines.flatMap((line, row) => {
      const { drawn, end } = drawLine(line, style)
      style = end
      if (drawn === '') return []
      if (!ids.has(drawn)) ids.set(drawn, `l${ids.size.toString(36)}`)
      return [`<use href="#${ids.get(drawn)}" y="${(row + 1) * lineHeight}"/>`]
    })
    return `<g transform="translate(${at * width} 0)">${uses.join('')}</g>`
  })
  const totalMs = frames.reduce((sum, { ms }) => sum + ms, 0) + restMs
  let passedMs = 0
  const steps = frames.map(({ ms }, at) => {
    const step = `${((100 * passedMs) / totalMs).toFixed(3)}%{transform:translateX(${-at * width}px)}`
    passedMs += ms
    return step
  })
  const lines = [...ids].map(([drawn, id]) => `<text id="${id}">${drawn}</text>`)
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="${escapeText(title)}">
<title>${escapeText(title)}</title>
<style>
text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;fill:${foreground};white-space:pre}
.film{animation:film ${(totalMs / 1000).toFixed(1)}s steps(1,end) infinite}
@keyframes film{${steps.join('')}}
@media (prefers-reduced-motion:reduce){.film{animation:none;transform:translateX(${-(frames.length - 1) * width}px)}}
</style>
<defs>${lines.join('\n')}</defs>
<rect width="100%" height="100%" rx="8" fill="${background}"/>
<svg x="${margin}" y="${margin - 4}" width="${width - 2 * margin}" height="${height - margin}"><g class="film">
${strip.join('\n')}
</g></svg>
</svg>
`
}

interface Style {
  readonly colour?: string | undefined
  readonly isBold?: boolean
  readonly isDim?: boolean
}

/** A line as the content of a `text`; empty for a line without anything to see. */
function drawLine(line: string, start: Style): { readonly drawn: string; readonly end: Style } {
  let style = start
  let column = 0
  const spans: string[] = []
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin so
  for (const part of line.split(/(\u001b\[[0-9;]*m)/)) {
    // biome-ignore lint/suspicious/noControlCharactersInRegex: as above
    const [, codes] = /^\u001b\[([0-9;]*)m$/.exec(part) ?? []
    if (codes !== undefined) {
      style = codes.split(';').map(Number).reduce(applyCode, style)
      continue
    }
    if (part.trim() !== '') spans.push(drawSpan(part, column, style))
    column += [...part].length
  }
  return { drawn: spans.join(''), end: style }
}

function drawSpan(text: string, column: number, { colour, isBold, isDim }: Style): string {
  const length = [...text].length
  const attributes = [
    `x="${(column * cellWidth).toFixed(1)}"`,
    // Whatever font there is, columns stay in line.
    `textLength="${(length * cellWidth).toFixed(1)}" lengthAdjust="spacingAndGlyphs"`,
    ...(colour === undefined ? [] : [`fill="${colour}"`]),
    ...(isBold === true ? ['font-weight="bold"'] : []),
    ...(isDim === true ? ['opacity=".6"'] : []),
  ]
  return `<tspan ${attributes.join(' ')}>${escapeText(text)}</tspan>`
}

function applyCode(style: Style, code: number): Style {
  if (code === 0) return {}
  if (code === 1) return { ...style, isBold: true }
  if (code === 2) return { ...style, isDim: true }
  if (code === 22) return { ...style, isBold: false, isDim: false }
  if (code === 39) return { ...style, colour: undefined }
  const index = code >= 90 ? code - 90 : code - 30
  return index >= 0 && index < palette.length ? { ...style, colour: palette[index] } : style
}

function escapeText(text: string): string {
  return text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
}
