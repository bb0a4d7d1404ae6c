import { mkdir } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { ownTool } from '../core/define-tool.ts'
import {
  createFile,
  exclusively,
  look,
  maxFileBytes,
  mustFit,
  Refused,
  readIfThere,
  readWhole,
  replaceFile,
} from '../core/file-access.ts'
import type { OpenTools, ToolAction } from '../core/tool.ts'
import { countOf } from '../core/truncate.ts'
import { decode, encode, fileText, isLatin1, mustBeText, plain, sameLineEnds, type Text } from './encoding.ts'
import { forEvent, lineCount } from './lines.ts'

/** Replaces a text in a file when it occurs as often as expected; with an empty old text it creates the file. */
export const openEdit: OpenTools = ({ workspace }) => [
  ownTool({
    directory: import.meta.dirname,
    tool: 'EditTool',
    action: 'EditAction',
    observation: 'EditObservation',
    resources: ({ file_path }) => [`file:${resolve(workspace.directory, file_path)}`],
    run: async (action) => {
      const real = await workspace.resolve(action.file_path, 'write')
      const done = await exclusively(real, () =>
        action.old_string === '' ? create(action, real) : edit(action, real),
      )
      return { content: done.told, ...done.members }
    },
    failed: () => ({
      file_path: null,
      is_new_file: false,
      replacements_made: 0,
    }),
  }),
]

async function create({ file_path, new_string }: ToolAction<'EditAction'>, real: string) {
  const bytes = mustFit(file_path, encode({ ...plain, text: new_string }))
  if ((await look(real)) !== undefined)
    throw new Refused(
      `${file_path} is already there. To change it, give the old text that is to be replaced.`,
    )
  await mkdir(dirname(real), { recursive: true })
  await createFile(real, bytes)
  return {
    told: `Created ${file_path}.`,
    members: {
      file_path: real,
      is_new_file: true,
      replacements_made: 0,
      old_content: null,
      new_content: forEvent(new_string),
    },
  }
}

async function edit(action: ToolAction<'EditAction'>, real: string) {
  const { file_path, old_string, new_string, expected_replacements: expected } = action
  if (old_string === new_string)
    throw new Refused('The old and the new text are the same, so nothing would change.')
  const old = mustBeText(file_path, (await readWhole(real)).bytes)
  const wanted = sameLineEnds(old_string, old)
  const made = countOf(old.text, wanted)
  if (made === 0)
    throw new Refused(
      `The old text does not occur in ${file_path}. Read the file to see what is there exactly.`,
    )
  if (made !== expected)
    throw new Refused(
      `The old text occurs ${made} times in ${file_path}, but ${expected} were expected. Add lines around it, or expect ${made}.`,
    )
  const changed: Text = { ...old, text: old.text.replaceAll(wanted, () => sameLineEnds(new_string, old)) }
  await replaceFile(real, mustFit(file_path, encode(changed)))
  return {
    told: `Changed ${file_path} in ${made} place${made === 1 ? '' : 's'}.`,
    members: {
      file_path: real,
      is_new_file: false,
      replacements_made: made,
      old_content: forEvent(fileText(old)),
      new_content: forEvent(fileText(changed)),
    },
  }
}

/** Writes a whole file, with the directories above it. */
export const openWriteFile: OpenTools = ({ workspace }) => [
  ownTool({
    directory: import.meta.dirname,
    tool: 'WriteFileTool',
    action: 'WriteFileAction',
    observation: 'WriteFileObservation',
    resources: ({ file_path }) => [`file:${resolve(workspace.directory, file_path)}`],
    run: async ({ file_path, content }) => {
      const real = await workspace.resolve(file_path, 'write')
      const { isNew, old } = await exclusively(real, () => write(file_path, real, content))
      const did = isNew ? 'Created' : 'Replaced'
      return {
        content: `${did} ${file_path}: ${lineCount(content)} lines.`,
        file_path: real,
        is_new_file: isNew,
        old_content: forEvent(old),
        new_content: forEvent(content),
      }
    },
    failed: () => ({
      file_path: null,
      is_new_file: false,
    }),
  }),
]

async function write(
  path: string,
  real: string,
  content: string,
): Promise<{ isNew: boolean; old: string | undefined }> {
  const stats = await look(real)
  // What is too large to be read may be replaced all the same.
  const bytes =
    stats !== undefined && stats.size > maxFileBytes ? undefined : (await readIfThere(real))?.bytes
  const old = bytes === undefined ? undefined : decode(bytes)
  const encoded = mustFit(path, inEncoding(content, old))
  await mkdir(dirname(real), { recursive: true })
  await replaceFile(real, encoded)
  return { isNew: stats === undefined, old: old === undefined ? undefined : fileText(old) }
}

/** In the encoding of the old content where that can express the new one, else in UTF-8; line ends are as given. */
function inEncoding(content: string, old: Text | undefined): Buffer {
  const isPossible = old?.encoding !== 'latin-1' || isLatin1(content)
  const encoding = old === undefined || !isPossible ? plain.encoding : old.encoding
  return encode({ text: content, encoding, lineEnd: '\n' })
}
