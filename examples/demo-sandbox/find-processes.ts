import { readdir, readFile, readlink } from 'node:fs/promises'

/**
 * Processes of this machine that use a directory: in their command, their environment, their working
 * directory or their mounts; this process excluded. Undefined without `/proc`.
 */
export async function findProcesses(directory: string): Promise<readonly number[] | undefined> {
  const names = await readdir('/proc').catch((): string[] => [])
  if (!names.includes('self')) return undefined
  const ids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  const isRelated = await Promise.all(ids.map((id) => mentionsDirectory(id, directory)))
  return ids.filter((id, at) => isRelated[at] && id !== process.pid)
}

async function mentionsDirectory(id: number, directory: string): Promise<boolean> {
  const texts = await Promise.all([
    ...['cmdline', 'environ', 'mountinfo'].map((name) =>
      readFile(`/proc/${id}/${name}`, 'latin1').catch(emptyText),
    ),
    readlink(`/proc/${id}/cwd`).catch(emptyText),
  ])
  // File names are escaped in mounts and may be any bytes; names of temporary directories are plain.
  return texts.some((text) => text.includes(directory))
}

function emptyText(): string {
  return ''
}
