import { lazy, Suspense } from 'react'
import { LongText } from './long-text.tsx'

const Markdown = lazy(() => import('./markdown.tsx'))

/** Markdown, loaded when first needed; until then, and where a text is very long, the plain text. */
export function RichText({ text }: { readonly text: string }) {
  return (
    <LongText
      text={text}
      render={(part) => (
        <Suspense fallback={<div className="markdown plain">{part}</div>}>
          <Markdown text={part} />
        </Suspense>
      )}
    />
  )
}
