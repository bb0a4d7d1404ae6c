import { existsSync, globSync, readFileSync } from 'node:fs'
import { dirname, join, normalize, resolve } from 'node:path'
import { expect, test } from 'vitest'

const root = resolve(import.meta.dirname, '..')
const read = (file: string) => readFileSync(join(root, file), 'utf8')
const isOwn = (file: string) => !file.includes('node_modules')
const pages = globSync(['*.md', 'docs/**/*.md', '{packages/*,deploy,examples}/README.md'], { cwd: root })
  // A changelog names files and identifiers of earlier versions.
  .filter((page) => page !== 'CHANGELOG.md')
const files = globSync('{.ci,bench,conformance,deploy,docs,examples,fuzz,openapi,packages,scripts}/**/*', {
  cwd: root,
  exclude: (name) => name === 'node_modules',
}).filter(isOwn)
const sourceWords = new Set(
  files
    .filter((file) => /\.(ts|json|md)$/.test(file) && !pages.includes(file))
    .flatMap((file) => read(file).match(/[A-Za-z_$][\w$]*/g) ?? []),
)

/** The page without its fenced blocks. */
const prose = (page: string) => read(page).replaceAll(/^```[\s\S]*?^```$/gm, '')
const codeSpans = (page: string) => [...prose(page).matchAll(/`([^`\n]+)`/g)].map(([, code = '']) => code)

/**
 * Links and spans name a file from the root, from the page, from `src` beside it, or by the end of its path.
 */
function fileExists(page: string, path: string): boolean {
  const name = normalize(path).replace(/\/$/, '')
  const places = ['.', dirname(page), join(dirname(page), 'src')].map((place) => join(root, place, name))
  return places.some((place) => existsSync(place)) || files.some((file) => `/${file}`.endsWith(`/${name}`))
}

function headingAnchors(page: string): string[] {
  return [...read(page).matchAll(/^#+ (.*)$/gm)].map(([, heading = '']) =>
    heading
      .toLowerCase()
      .replaceAll(/[^\w\- ]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** `packages/shared/src/async`, and `plan.ts` or `sqlite/`. */
const ownPath = /^(bench|conformance|deploy|docs|examples|fuzz|openapi|packages|scripts)\/[\w./-]+$/
const fileName = /^[\w.-]+(\/[\w.-]+)*(\.(ts|md|json)|\/)$/
/** Files of users' projects. */
const foreignFiles = ['CLAUDE.md']

test.each(pages)('%s: every link leads to a file and a heading', (page) => {
  const links = [...prose(page).matchAll(/\]\(([^)\s]+)\)/g)].map(([, link = '']) => link)
  for (const link of links.filter((link) => !/^https?:/.test(link))) {
    const [path = '', anchor] = link.split('#')
    const target = path === '' ? page : normalize(join(dirname(page), path))
    expect(existsSync(join(root, target)), link).toBe(true)
    if (anchor !== undefined) expect(headingAnchors(target), link).toContain(anchor)
  }
})

test.each(pages)('%s: every file that it names exists', (page) => {
  const words = codeSpans(page).flatMap((code) => code.split(' '))
  const paths = words.filter((word) => ownPath.test(word) || fileName.test(word))
  const isMissing = (path: string) => !foreignFiles.includes(path) && !fileExists(page, path)
  expect(paths.filter(isMissing)).toEqual([])
})

/** A decision also names rejected alternatives. */
const pagesOfToday = pages.filter((page) => !page.startsWith('docs/decisions/'))

test.each(pagesOfToday)('%s: every identifier that it names is in the code', (page) => {
  const names = codeSpans(page).flatMap((code) => code.match(/^[A-Za-z]\w*[a-z][A-Z]\w*(?=$|[(.])/) ?? [])
  expect(names.filter((name) => !sourceWords.has(name))).toEqual([])
})

test.each(pages)('%s: programs of the sources are run by the Node of the clone', (page) => {
  // The machine's own may be one that knows no TypeScript.
  expect(read(page).match(/^.*(?<!npx )\bnode [\w/-]+\/[\w-]+\.ts.*$/gm) ?? []).toEqual([])
})
