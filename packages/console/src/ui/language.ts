/** What a file is written in, by its name or the end of it; names are those of the grammars. */
const byExtension: Readonly<Record<string, string>> = {
  bash: 'shellscript',
  c: 'c',
  cc: 'cpp',
  cfg: 'ini',
  conf: 'ini',
  cpp: 'cpp',
  cs: 'csharp',
  css: 'css',
  cts: 'typescript',
  cjs: 'javascript',
  diff: 'diff',
  go: 'go',
  h: 'c',
  hpp: 'cpp',
  htm: 'html',
  html: 'html',
  ini: 'ini',
  java: 'java',
  js: 'javascript',
  json: 'json',
  jsonl: 'json',
  jsx: 'jsx',
  kt: 'kotlin',
  lua: 'lua',
  md: 'markdown',
  mjs: 'javascript',
  mk: 'make',
  mts: 'typescript',
  patch: 'diff',
  php: 'php',
  py: 'python',
  pyi: 'python',
  rb: 'ruby',
  rs: 'rust',
  sh: 'shellscript',
  sql: 'sql',
  svg: 'xml',
  swift: 'swift',
  toml: 'toml',
  ts: 'typescript',
  tsx: 'tsx',
  xml: 'xml',
  yaml: 'yaml',
  yml: 'yaml',
  zsh: 'shellscript',
}
const byName: Readonly<Record<string, string>> = { dockerfile: 'docker', makefile: 'make' }
/** Names that people write behind a fence. */
const aliases: Readonly<Record<string, string>> = {
  'c++': 'cpp',
  console: 'shellscript',
  dockerfile: 'docker',
  golang: 'go',
  shell: 'shellscript',
}

/** The language of a file; undefined when its name says nothing. */
export function languageOfPath(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase()
  const extension = name.slice(name.lastIndexOf('.') + 1)
  return lookUp(byName, name) ?? (extension === name ? undefined : lookUp(byExtension, extension))
}

/** The language that a fence of Markdown names. */
export function languageOfFence(info: string): string {
  const name = info.toLowerCase()
  return lookUp(aliases, name) ?? lookUp(byExtension, name) ?? name
}

function lookUp(table: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}
