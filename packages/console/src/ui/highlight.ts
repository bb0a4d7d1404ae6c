import {
  createHighlighterCore,
  type GrammarState,
  type HighlighterCore,
  type LanguageInput,
  type ThemedToken,
} from 'shiki/core'
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript'

/** Each language is a separate file, loaded when a text needs it. */
const grammars = {
  c: () => import('shiki/langs/c.mjs'),
  cpp: () => import('shiki/langs/cpp.mjs'),
  csharp: () => import('shiki/langs/csharp.mjs'),
  css: () => import('shiki/langs/css.mjs'),
  diff: () => import('shiki/langs/diff.mjs'),
  docker: () => import('shiki/langs/docker.mjs'),
  go: () => import('shiki/langs/go.mjs'),
  html: () => import('shiki/langs/html.mjs'),
  ini: () => import('shiki/langs/ini.mjs'),
  java: () => import('shiki/langs/java.mjs'),
  javascript: () => import('shiki/langs/javascript.mjs'),
  json: () => import('shiki/langs/json.mjs'),
  jsx: () => import('shiki/langs/jsx.mjs'),
  kotlin: () => import('shiki/langs/kotlin.mjs'),
  lua: () => import('shiki/langs/lua.mjs'),
  make: () => import('shiki/langs/make.mjs'),
  markdown: () => import('shiki/langs/markdown.mjs'),
  php: () => import('shiki/langs/php.mjs'),
  python: () => import('shiki/langs/python.mjs'),
  ruby: () => import('shiki/langs/ruby.mjs'),
  rust: () => import('shiki/langs/rust.mjs'),
  shellscript: () => import('shiki/langs/shellscript.mjs'),
  sql: () => import('shiki/langs/sql.mjs'),
  swift: () => import('shiki/langs/swift.mjs'),
  toml: () => import('shiki/langs/toml.mjs'),
  tsx: () => import('shiki/langs/tsx.mjs'),
  typescript: () => import('shiki/langs/typescript.mjs'),
  xml: () => import('shiki/langs/xml.mjs'),
  yaml: () => import('shiki/langs/yaml.mjs'),
} satisfies Readonly<Record<string, () => Promise<{ default: LanguageInput }>>>

export type Language = keyof typeof grammars

export function isLanguage(name: string): name is Language {
  return Object.hasOwn(grammars, name)
}

/** Colours are custom properties of the page, so that dark and light need one theme. */
const theme = {
  name: 'console',
  type: 'light' as const,
  fg: 'var(--ink)',
  bg: 'var(--surface-2)',
  colors: { 'editor.foreground': 'var(--ink)', 'editor.background': 'var(--surface-2)' },
  settings: [
    { scope: ['comment', 'punctuation.definition.comment'], settings: { foreground: 'var(--code-comment)' } },
    {
      scope: ['string', 'constant.other.symbol', 'markup.inline.raw', 'meta.attribute-selector string'],
      settings: { foreground: 'var(--code-string)' },
    },
    {
      scope: ['constant.numeric', 'constant.language', 'constant.character', 'support.constant'],
      settings: { foreground: 'var(--code-constant)' },
    },
    {
      scope: ['keyword', 'storage', 'storage.type', 'entity.name.tag', 'keyword.operator.new'],
      settings: { foreground: 'var(--code-keyword)' },
    },
    { scope: ['keyword.operator'], settings: { foreground: 'var(--ink)' } },
    {
      scope: ['entity.name.function', 'support.function', 'entity.other.attribute-name', 'markup.heading'],
      settings: { foreground: 'var(--code-name)' },
    },
    {
      scope: ['entity.name.type', 'entity.name.class', 'support.type', 'support.class'],
      settings: { foreground: 'var(--code-type)' },
    },
    { scope: ['markup.inserted'], settings: { foreground: 'var(--good)' } },
    { scope: ['markup.deleted', 'invalid'], settings: { foreground: 'var(--bad)' } },
  ],
}

let highlighter: Promise<HighlighterCore> | undefined

/** Lines that are coloured before the page may do something else. */
const linesAtOnce = 50
/** Longest time for a text, in milliseconds; what is left then stays plain. */
const maxMs = 10_000

/** The colours of a text, line by line. A line that is very long keeps one colour. */
export async function highlight(text: string, language: Language): Promise<readonly ThemedToken[][]> {
  highlighter ??= createHighlighterCore({
    themes: [theme],
    langs: [],
    engine: createJavaScriptRegexEngine({ forgiving: true }),
  })
  const core = await highlighter
  await core.loadLanguage(grammars[language])
  const lines = text.split('\n')
  const result: ThemedToken[][] = []
  const startedAt = performance.now()
  let grammarState: GrammarState | undefined
  for (let at = 0; at < lines.length; at += linesAtOnce) {
    const part = lines.slice(at, at + linesAtOnce)
    if (performance.now() - startedAt > maxMs) {
      result.push(...part.map((content) => [{ content, offset: 0 }]))
      continue
    }
    const tokens = core.codeToTokensBase(part.join('\n'), {
      lang: language,
      theme: theme.name,
      ...(grammarState !== undefined && { grammarState }),
      tokenizeMaxLineLength: 1_000,
      // A limit that is reached leaves the lines after it in a wrong state: it is for hostile lines alone.
      tokenizeTimeLimit: 5_000,
    })
    grammarState = core.getLastGrammarState(tokens)
    result.push(...tokens)
    await new Promise((resume) => setTimeout(resume))
  }
  return result
}
