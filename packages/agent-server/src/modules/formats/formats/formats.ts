import type { ExportFormatName } from '@slipway/protocol/client'
import { writeArchive } from './archive.ts'
import { writeAtif } from './atif.ts'
import type { WriteFormat } from './format.ts'
import { writeHtml } from './html.ts'
import { writeJsonLines } from './jsonl.ts'
import { writeMarkdown } from './markdown.ts'
import { writeVerifiable } from './verifiable.ts'

/** How each format of `exportFormats` is written. */
export const formatWriters: Readonly<Record<ExportFormatName, WriteFormat>> = {
  jsonl: writeJsonLines,
  verifiable: writeVerifiable,
  archive: writeArchive,
  atif: writeAtif,
  markdown: writeMarkdown,
  html: writeHtml,
}
