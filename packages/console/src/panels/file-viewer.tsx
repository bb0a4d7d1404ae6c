import { formatBytes } from '@slipway/shared/text'
import { useMutation, useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { agentServer } from '../api/session.ts'
import { saveFile } from '../list/actions.ts'
import { Code } from '../ui/code.tsx'
import { Icon } from '../ui/icon.tsx'
import { languageOfPath } from '../ui/language.ts'
import { LongText } from '../ui/long-text.tsx'
import { RichText } from '../ui/rich-text.tsx'
import { ErrorState, Loading } from '../ui/states.tsx'

/** Most of a text that is read for the page. */
const maxTextBytes = 1024 * 1024
const maxImageBytes = 16 * 1024 * 1024
const imageTypes: Readonly<Record<string, string>> = {
  avif: 'image/avif',
  gif: 'image/gif',
  ico: 'image/x-icon',
  jpeg: 'image/jpeg',
  jpg: 'image/jpeg',
  png: 'image/png',
  svg: 'image/svg+xml',
  webp: 'image/webp',
}

type Content =
  | { readonly type: 'text'; readonly text: string; readonly isCut: boolean }
  | { readonly type: 'image'; readonly blob: Blob }
  | { readonly type: 'binary' }

/** One file: source in colours, Markdown as prose or as source, pictures; anything can be downloaded. */
export function FileViewer(props: {
  readonly id: string
  readonly path: string
  readonly sizeBytes: number | null
  /** Changes when the file may have. */
  readonly version: string
}) {
  const { id, path, sizeBytes, version } = props
  const [isSource, setSource] = useState(false)
  const content = useQuery({
    queryKey: ['file', id, path, version],
    queryFn: ({ signal }) => readFile(id, path, signal),
    placeholderData: (old, query) => (query?.queryKey[2] === path ? old : undefined),
  })
  const name = path.slice(path.lastIndexOf('/') + 1)
  const download = useMutation({
    mutationFn: async () => saveFile(await (await openFile(id, path)).blob(), name),
  })
  const isMarkdown = /\.(?:md|markdown)$/i.test(name)
  return (
    <section aria-label={name}>
      <div className="viewer-head">
        <span className="quiet">{sizeBytes !== null && formatBytes(sizeBytes)}</span>
        <span className="spacer" />
        {isMarkdown && (
          <button type="button" aria-pressed={isSource} onClick={() => setSource(!isSource)}>
            Source
          </button>
        )}
        <button type="button" onClick={() => download.mutate()} disabled={download.isPending}>
          <Icon name="down" /> Download
        </button>
      </div>
      {content.isPending && <Loading />}
      {content.isError && <ErrorState error={content.error} retry={() => void content.refetch()} />}
      {content.data?.type === 'binary' && <p>This file is no text.</p>}
      {content.data?.type === 'image' && <BlobPicture blob={content.data.blob} label={name} />}
      {content.data?.type === 'text' && (
        <>
          {content.data.text === '' && <p className="quiet">The file is empty.</p>}
          {isMarkdown && !isSource ? (
            <RichText text={content.data.text} />
          ) : (
            <LongText
              text={content.data.text}
              firstPart={40_000}
              render={(part) => (
                <Code text={part.replace(/\n$/, '')} language={languageOfPath(path)} hasLineNumbers />
              )}
            />
          )}
          {content.data.isCut && (
            <p className="quiet">
              Only the first {formatBytes(maxTextBytes)} are shown; the download has all.
            </p>
          )}
        </>
      )}
    </section>
  )
}

function BlobPicture({ blob, label }: { readonly blob: Blob; readonly label: string }) {
  const [url, setUrl] = useState<string>()
  useEffect(() => {
    const address = URL.createObjectURL(blob)
    setUrl(address)
    return () => URL.revokeObjectURL(address)
  }, [blob])
  return url === undefined ? null : <img className="picture" src={url} alt={label} />
}

async function openFile(id: string, path: string, signal?: AbortSignal): Promise<Response> {
  const params = { runtime_conversation_id: id }
  return await agentServer.open('downloadConversationFile', { params, query: { path }, signal })
}

async function readFile(id: string, path: string, signal: AbortSignal): Promise<Content> {
  const type = imageTypes[path.slice(path.lastIndexOf('.') + 1).toLowerCase()]
  const limit = type === undefined ? maxTextBytes : maxImageBytes
  const { bytes, isCut } = await readStart(await openFile(id, path, signal), limit)
  if (type !== undefined && !isCut) return { type: 'image', blob: new Blob([bytes], { type }) }
  // As git does: a NUL among the first bytes says that a file is no text.
  if (bytes.subarray(0, 8_000).includes(0)) return { type: 'binary' }
  return { type: 'text', text: new TextDecoder().decode(bytes, { stream: isCut }), isCut }
}

/** The first bytes of an answer; the rest is not transferred. */
async function readStart(
  response: Response,
  limit: number,
): Promise<{ bytes: Uint8Array<ArrayBuffer>; isCut: boolean }> {
  const parts: Uint8Array[] = []
  let size = 0
  const reader = response.body?.getReader()
  while (reader !== undefined && size <= limit) {
    const { done, value } = await reader.read()
    if (done) break
    parts.push(value)
    size += value.length
  }
  if (size > limit) await reader?.cancel()
  const bytes = new Uint8Array(Math.min(size, limit))
  let at = 0
  for (const part of parts) {
    bytes.set(part.subarray(0, bytes.length - at), at)
    at += Math.min(part.length, bytes.length - at)
  }
  return { bytes, isCut: size > limit }
}
