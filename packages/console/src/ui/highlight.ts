import { createHighlighterCore, type HighlighterCore, type LanguageInput, type ThemedToken } from 'shiki/core'
import { createJavaScriptRegexEngine } from 'shiki/engine/javascript'

/** Each language is a file of its own, loaded when a text needs it. */
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

/** The colours of a text, line by line. A line that is very long, or that takes long, keeps one colour. */
export async function highlight(text: string, language: Language): Promise<readonly ThemedToken[][]> {
  highlighter ??= createHighlighterCore({
    themes: [theme],
    langs: [],
    engine: createJavaScriptRegexEngine({ forgiving: true }),
  })
  const core = await highlighter
  await core.loadLanguage(grammars[language])
  return core.codeToTokensBase(text, {
    lang: language,
    theme: theme.name,
    tokenizeMaxLineLength: 1_000,
    tokenizeTimeLimit: 200,
  })
}
