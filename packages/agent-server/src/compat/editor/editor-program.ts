import { basename, delimiter, isAbsolute, join } from 'node:path'
import { isExecutable } from '@slipway/agent'

/** An installed editor for browsers. */
interface EditorProgram {
  readonly path: string
  /** Arguments with which it listens on a Unix socket, asks for no password and keeps its files below `directory`. */
  arguments(place: EditorPlace): readonly string[]
  /** It serves below the base path itself; others serve at the root. */
  readonly servesBasePath: boolean
}

interface EditorPlace {
  readonly socketPath: string
  readonly directory: string
  /** `/team/editor`, or empty. */
  readonly basePath: string
}

/** The order in which they are looked for. */
const programNames = ['openvscode-server', 'code-server']

/** The configured program, otherwise the first that is on the PATH; undefined when there is none. */
export async function findEditorProgram(options: {
  readonly command: string | undefined
  readonly path: string | undefined
}): Promise<EditorProgram | undefined> {
  const { command, path = '' } = options
  const directories = path.split(delimiter).filter(isAbsolute)
  const names = command === undefined ? programNames : [command]
  const candidates = names.flatMap((name) =>
    isAbsolute(name) ? [name] : directories.map((directory) => join(directory, name)),
  )
  for (const candidate of candidates) if (await isExecutable(candidate)) return editorProgram(candidate)
  return undefined
}

/** `code-server` has its own flags; other programs take those of the server of VS Code. */
function editorProgram(path: string): EditorProgram {
  return /^code-server\b/.test(basename(path)) ? codeServer(path) : vscodeServer(path)
}

function codeServer(path: string): EditorProgram {
  return {
    path,
    servesBasePath: false,
    arguments: ({ socketPath, directory }) => [
      ...['--auth', 'none', '--socket', socketPath, '--socket-mode', '600'],
      ...['--user-data-dir', join(directory, 'data'), '--config', join(directory, 'config.yaml')],
      ...['--session-socket', join(directory, 'session.sock')],
      // Its proxy would show pages of other ports as pages of the editor.
      ...['--disable-proxy', '--disable-telemetry', '--disable-update-check'],
    ],
  }
}

function vscodeServer(path: string): EditorProgram {
  return {
    path,
    servesBasePath: true,
    arguments: ({ socketPath, directory, basePath }) => [
      ...['--socket-path', socketPath, '--without-connection-token'],
      ...['--server-data-dir', join(directory, 'data'), '--telemetry-level', 'off'],
      ...(basePath === '' ? [] : ['--server-base-path', basePath]),
    ],
  }
}
