import { cp, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join, posix } from 'node:path'
import { agentServerOpenApi, resyncFrame, sandboxServerOpenApi } from '@slipway/protocol'
import { rolldown } from 'rolldown'
import * as z from 'zod'
import { printCallTypes, printType, protocolTypes, routeTypes, type Schema } from './client-types.ts'
import { frontDoors, isReleased, listFiles, root, runProgram, writeJson } from './files.ts'

/**
 * Fills a directory with the package `@slipway/client`: one module without imports, which runs in a browser
 * and in Node, and its types. The module includes zod, so no other package is needed.
 */
export async function createClientPackage(directory: string, version: string): Promise<void> {
  await bundle(join(directory, 'index.js'))
  await writeTypes(directory)
  await writeJson(join(directory, 'package.json'), {
    name: '@slipway/client',
    version,
    description: 'Calls agent servers and sandbox servers, and follows conversations.',
    license: 'MIT',
    type: 'module',
    sideEffects: false,
    exports: { '.': { types: './types/client/src/index.d.ts', default: './index.js' } },
    files: ['index.js', 'types', 'LICENSE-zod'],
  })
  await cp(join(root, 'LICENSE'), join(directory, 'LICENSE'))
  await cp(join(root, 'node_modules/zod/LICENSE'), join(directory, 'LICENSE-zod'))
  await cp(join(root, 'packages/client/README.md'), join(directory, 'README.md'))
}

async function bundle(file: string): Promise<void> {
  const build = await rolldown({
    input: join(root, 'packages/client/src/index.ts'),
    cwd: root,
    platform: 'browser',
    logLevel: 'silent',
  })
  const { output } = await build.write({ file, format: 'esm', minify: false })
  await build.close()
  const [chunk, ...others] = output
  if (others.length > 0 || chunk.imports.length > 0)
    throw new Error('The client is not one file without imports')
}

/** The packages whose declarations the compiler writes. */
const bundledPackages = ['client', 'shared']

/**
 * Declarations as the compiler writes them; all paths relative. Those of the protocol, and the
 * types of calls, are printed from the OpenAPI documents: plain interfaces with comments, which a
 * compiler reads in a moment.
 */
async function writeTypes(directory: string): Promise<void> {
  const types = join(directory, 'types')
  const config = join(directory, 'tsconfig.json')
  await writeJson(config, {
    extends: join(root, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      declaration: true,
      emitDeclarationOnly: true,
      outDir: types,
      rootDir: join(root, 'packages'),
      typeRoots: [join(root, 'node_modules/@types')],
    },
    // One package at a time: for sources behind a link in node_modules the compiler writes no declarations.
    include: bundledPackages.map((name) => join(root, 'packages', name, 'src')),
    exclude: ['*.test.ts', '*.contract.ts', '*.bench.ts', 'testing'].map((name) =>
      join(root, 'packages/*/src/**', name),
    ),
  })
  await runProgram(join(root, 'node_modules/.bin/tsc'), ['-p', config], root)
  await rm(config)
  await expectAllDeclarations(types)
  for (const path of await listFiles(types)) {
    const text = await readFile(join(types, path), 'utf8')
    await writeFile(join(types, path), rewriteDeclarationImports(text, path))
  }
  const protocol = join(types, 'protocol/src')
  await mkdir(protocol, { recursive: true })
  const [agentServer, sandboxServer] = [agentServerOpenApi.toJSON(), sandboxServerOpenApi.toJSON()]
  const resync = z.toJSONSchema(resyncFrame.shape.resync, { io: 'input' }) as Schema // its members are plain
  for (const [path, text] of [
    ['agent-server-calls.d.ts', printCallTypes(agentServer, 'AgentServerCalls')],
    ['sandbox-server-calls.d.ts', printCallTypes(sandboxServer, 'SandboxServerCalls')],
    ['index.d.ts', `${protocolTypes}export interface Resync ${printType(resync)}\n`],
  ] as const)
    await writeFile(join(protocol, path), text)
  await writeFile(join(types, 'client/src/calls/route-types.d.ts'), routeTypes)
}

async function expectAllDeclarations(types: string): Promise<void> {
  for (const name of bundledPackages) {
    const files = await listFiles(join(root, 'packages', name, 'src'))
    // Data that a source imports has none.
    const sources = files.filter((path) => path.endsWith('.ts') && isReleased(path))
    const made = await listFiles(join(types, name, 'src'))
    const missing = sources.filter((path) => !made.includes(path.replace(/\.ts$/, '.d.ts')))
    if (missing.length > 0) throw new Error(`No declarations of ${name}: ${missing.join(', ')}`)
  }
}

/** Rewrites the imports of a declaration file. */
export function rewriteDeclarationImports(text: string, path: string): string {
  const up = posix.relative(posix.dirname(path), '.')
  return text
    .replaceAll(/(['"])(\.{1,2}\/[^'"\s]*)\.ts\1/g, '$1$2.js$1')
    .replaceAll(/(['"])(@slipway\/[a-z/-]+)\1/g, (text, quote: string, name: string) => {
      const file = frontDoors
        .get(name)
        ?.replace(/^packages/, up)
        .replace(/\.ts$/, '.js')
      return file === undefined ? text : quote + file + quote
    })
}
