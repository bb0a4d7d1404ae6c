import Anser from 'anser'
import { memo } from 'react'

const otherSequences =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: terminal output is made of them
  /\x1b(?:\][^\x07\x1b]*(?:\x07|\x1b\\)?|\[[0-9;?<>=!]*[@-ln-~]|[PX^_][^\x1b]*(?:\x1b\\)?|[()*+#][0-9A-Za-z]|[0-9=>A-Za-z])/g
// biome-ignore lint/suspicious/noControlCharactersInRegex: the same
const controls = /[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]/g

/** Terminal output with its colours. Sequences that move the cursor, set titles or make links are dropped. */
export const Ansi = memo(function Ansi({ text }: { readonly text: string }) {
  const plain = text
    .replace(otherSequences, '')
    .replace(/\r+\n/g, '\n')
    .replace(/^.*\r(?=[^\n])/gm, '')
  const spans = Anser.ansiToJson(plain.replace(controls, ''), {
    json: true,
    use_classes: true,
    remove_empty: true,
  })
  return (
    <pre className="output terminal">
      {spans.map((span, at) => {
        const names = [span.fg, span.bg && `${span.bg}-bg`, ...span.decorations].filter(Boolean)
        return names.length === 0 ? (
          span.content
        ) : (
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts of one fixed text
          <span key={at} className={names.join(' ')}>
            {span.content}
          </span>
        )
      })}
    </pre>
  )
})
