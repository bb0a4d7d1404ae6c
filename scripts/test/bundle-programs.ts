import { cpSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import { rolldown } from 'rolldown'
import { root } from '../release/files.ts'
import { absentModules, commonJsNames, separateLibraries } from '../release/libraries.ts'

// Of a start of a server two fifths of the CPU time are its thousand modules: each is looked for, read and
// linked. `npm run test:all` starts some thousand programs, so it starts them from bundles.
//
// A bundle lies where its program lies, in a copy of the working tree: what a program finds beside its
// sources (prompts, worker threads, other programs, `packages` and `node_modules` for sandboxes) is at the
// same path of the copy. So `import.meta` of each bundled module is that of its source in the copy.

/** From the root; those of tests are programs of TypeScript. */
const programs = [
  'packages/agent-server/src/main.js',
  'packages/cli/src/main.js',
  'packages/cli/src/testing/command-host.ts',
  'packages/sandbox-server/src/main.js',
  'conformance/support/sandbox-server/self-killing-server.ts',
]

/** They are copied; the others are links. */
const copied: ReadonlySet<string> = new Set(['conformance', 'examples', 'packages'])

/** Of the working tree and not of a program. */
const absent: ReadonlySet<string> = new Set(['.git', '.github', 'bench', 'fuzz'])

/** Makes the copy in a folder that is missing. */
export async function bundlePrograms(folder: string): Promise<void> {
  mkdirSync(folder)
  for (const name of readdirSync(root)) {
    const [from, to] = [join(root, name), join(folder, name)]
    if (copied.has(name)) cpSync(from, to, { recursive: true, preserveTimestamps: true, filter: isSource })
    else if (!absent.has(name)) symlinkSync(from, to)
  }
  const build = await rolldown({
    input: Object.fromEntries(programs.map((path) => [path.replace(/\.[jt]s$/, ''), join(root, path)])),
    cwd: root,
    platform: 'node',
    logLevel: 'silent',
    transform: { define: commonJsNames },
    external: [...separateLibraries, ...absentModules],
    plugins: [
      {
        name: 'places',
        transform(code, id) {
          if (id.includes('node_modules') || !code.includes('import.meta.')) return undefined
          return { code: placeMeta(code, join(folder, relative(root, id))), map: null }
        },
      },
    ],
  })
  await build.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: 'packages/chunks/[name]-[hash].js',
    keepNames: true,
  })
  await build.close()
}

function isSource(path: string): boolean {
  return !path.includes(`${sep}node_modules`) && !path.endsWith('.test.ts')
}

function placeMeta(code: string, path: string): string {
  return code
    .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
    .replaceAll('import.meta.filename', JSON.stringify(path))
    .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href))
}
