import { readdir, readFile, readlink } from 'node:fs/promises'

/**
 * Processes of this machine that have to do with a directory: it is in their command, their environment, their working directory
 * or their mounts. This process is not among them. Undefined where there is no `/proc` to look into.
 */
export async function processesIn(directory: string): Promise<readonly number[] | undefined> {
  const names = await readdir('/proc').catch((): string[] => [])
  if (!names.includes('self')) return undefined
  const ids = names.filter((name) => /^\d+$/.test(name)).map(Number)
  const isIn = await Promise.all(ids.map((id) => hasToDoWith(id, directory)))
  return ids.filter((id, at) => isIn[at] && id !== process.pid)
}

async function hasToDoWith(id: number, directory: string): Promise<boolean> {
  const texts = await Promise.all([
    ...['cmdline', 'environ', 'mountinfo'].map((name) =>
      readFile(`/proc/${id}/${name}`, 'latin1').catch(none),
    ),
    readlink(`/proc/${id}/cwd`).catch(none),
  ])
  // Names of files are escaped in mounts and may be any bytes; those of temporary directories are plain.
  return texts.some((text) => text.includes(directory))
}

function none(): string {
  return ''
}
