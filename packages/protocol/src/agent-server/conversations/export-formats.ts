/** A form in which a conversation is exported. */
export interface ExportFormat {
  /** As in `format` of the route and `--format` of the command. */
  readonly name: string
  /** Of the file. */
  readonly extension: string
  readonly contentType: string
  readonly description: string
}

/** The forms, the usual one first. Each is a file of `formats` in the agent server. */
export const exportFormats = [
  {
    name: 'jsonl',
    extension: 'jsonl',
    contentType: 'application/x-ndjson',
    description: 'one event a line, the stored bytes; an import takes it',
  },
  {
    name: 'verifiable',
    extension: 'verifiable.jsonl',
    contentType: 'application/x-ndjson',
    description: 'the stored bytes with a chain of digests, signed; `slipway verify` checks it offline',
  },
  {
    name: 'archive',
    extension: 'zip',
    contentType: 'application/zip',
    description:
      'the folder of an OpenHands conversation as a zip file, a file for each event; secrets are redacted, and an import takes it',
  },
  {
    name: 'atif',
    extension: 'atif.json',
    contentType: 'application/json',
    description: 'a trajectory in ATIF 1.8, the format of Harbor; secrets are redacted',
  },
  {
    name: 'markdown',
    extension: 'md',
    contentType: 'text/markdown; charset=utf-8',
    description: 'a text to read; outputs are fenced, secrets are redacted',
  },
  {
    name: 'html',
    extension: 'html',
    contentType: 'text/html; charset=utf-8',
    description: 'one page without scripts that loads nothing; secrets are redacted',
  },
] as const satisfies readonly ExportFormat[]

export type ExportFormatName = (typeof exportFormats)[number]['name']
