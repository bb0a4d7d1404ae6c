import { memo } from 'react'
import ReactMarkdown, { type Components } from 'react-markdown'
import remarkGfm from 'remark-gfm'
import { Code } from './code.tsx'
import { languageOfFence } from './language.ts'

/**
 * Markdown of models and users. HTML in it is shown as text, links are of the web alone and send no referrer,
 * and a picture of another server is shown as its address: no page makes this browser call anybody.
 */
const components: Components = {
  a: ({ href, children }) =>
    /^(?:https?:|mailto:)/i.test(href ?? '') ? (
      <a href={href} target="_blank" rel="noreferrer noopener">
        {children}
      </a>
    ) : (
      <span>{children}</span>
    ),
  pre: ({ node, children }) => {
    const code = node?.children[0]
    const text = code?.type === 'element' ? code.children[0] : undefined
    if (code?.type !== 'element' || text?.type !== 'text') return <pre>{children}</pre>
    const names = Array.isArray(code.properties.className) ? code.properties.className.map(String) : []
    const fence = names.find((name) => name.startsWith('language-'))?.slice('language-'.length)
    return (
      <Code
        text={text.value.replace(/\n$/, '')}
        language={fence === undefined ? undefined : languageOfFence(fence)}
      />
    )
  },
  img: ({ alt, src }) => <span className="quiet">[image: {alt || String(src ?? '')}]</span>,
  input: ({ checked }) => <span aria-hidden="true">{checked ? '☑ ' : '☐ '}</span>,
  table: ({ children }) => (
    <div className="scroll-x">
      <table>{children}</table>
    </div>
  ),
}

const plugins = [remarkGfm]

const Markdown = memo(function Markdown({ text }: { readonly text: string }) {
  return (
    <div className="markdown" dir="auto">
      <ReactMarkdown remarkPlugins={plugins} components={components}>
        {text}
      </ReactMarkdown>
    </div>
  )
})

// biome-ignore lint/style/noDefaultExport: React.lazy loads default exports
export default Markdown
