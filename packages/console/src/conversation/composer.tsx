import type { CallOutput } from '@slipway/client'
import { firstChars, lastChars } from '@slipway/shared/text'
import { useMutation } from '@tanstack/react-query'
import {
  type ClipboardEvent,
  type DragEvent,
  type FormEvent,
  type KeyboardEvent,
  useRef,
  useState,
} from 'react'
import { refresh, useAction } from '../api/queries.ts'
import { agentServer, postFile } from '../api/session.ts'
import { Icon } from '../ui/icon.tsx'

type Control = 'runConversation' | 'pauseConversation' | 'interruptConversation'
type Info = CallOutput<'getConversation'>

/** Writes to the agent, and starts and stops it. */
export function Composer({ id, info }: { readonly id: string; readonly info: Info | undefined }) {
  const [text, setText] = useState('')
  const [images, setImages] = useState<readonly string[]>([])
  const [attached, setAttached] = useState<readonly File[]>([])
  const files = useRef<HTMLInputElement>(null)
  const params = { conversation_id: id }
  // The key is of the message, so a repeat after a lost answer is stored once.
  const key = useRef(newKey())
  const send = useMutation({
    mutationFn: async () => {
      const paths = await uploadFiles(id, info?.workspace.working_dir ?? '', attached)
      const written = [text, ...paths.map((path) => `Attached file: ${path}`)].join('\n').trim()
      return await agentServer.call('sendMessage', {
        params,
        headers: { 'idempotency-key': key.current },
        body: {
          content: [
            ...(written === '' ? [] : [{ type: 'text' as const, text: written }]),
            ...(images.length === 0 ? [] : [{ type: 'image' as const, image_urls: [...images] }]),
          ],
          run: true,
        },
      })
    },
    onSuccess: async () => {
      key.current = newKey()
      setText('')
      setImages([])
      setAttached([])
      await refresh('conversation', id)
    },
  })
  const control = useAction(['conversation', id], (name: Control) => agentServer.call(name, { params }))
  /** Pictures go with the message; other files go to the workspace, and the message names them. */
  const addFiles = async (list: readonly File[]) => {
    const isPicture = (file: File) => /^image\/(?:png|jpeg|gif|webp)$/.test(file.type)
    const urls = await Promise.all(list.filter(isPicture).map(readAsDataUrl))
    setImages((old) => [...old, ...urls])
    setAttached((old) => [...old, ...list.filter((file) => !isPicture(file))])
  }
  const paste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return
    event.preventDefault()
    void addFiles([...event.clipboardData.files])
  }
  const drop = (event: DragEvent) => {
    if (event.dataTransfer.files.length === 0) return
    event.preventDefault()
    void addFiles([...event.dataTransfer.files])
  }
  const isEmpty = text.trim() === '' && images.length === 0 && attached.length === 0
  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if (!isEmpty && !send.isPending) send.mutate()
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit()
    if (event.key === 'Escape') (event.target as HTMLElement).blur()
  }
  const status = info?.execution_status
  const isRunning = status === 'running'
  return (
    <form className="composer" onSubmit={submit} onDragOver={(event) => event.preventDefault()} onDrop={drop}>
      <Attachments {...{ attached, images, setAttached, setImages }} />
      <textarea
        id="message"
        aria-label="Message"
        placeholder={isRunning ? 'Write to the agent while it works' : 'Write to the agent'}
        rows={Math.min(8, Math.max(2, text.split('\n').length))}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onPaste={paste}
        onKeyDown={onKey}
        dir="auto"
      />
      <div className="composer-buttons">
        <input
          ref={files}
          type="file"
          multiple
          hidden
          onChange={(event) => {
            void addFiles([...(event.target.files ?? [])])
            event.target.value = ''
          }}
        />
        <button
          type="button"
          className="ghost"
          aria-label="Add pictures or files"
          onClick={() => files.current?.click()}
        >
          <Icon name="attach" />
        </button>
        <span className="spacer" />
        <RunButtons status={status} control={control.mutate} />
        <button type="submit" className="primary" disabled={send.isPending || isEmpty}>
          <Icon name="send" /> Send
        </button>
      </div>
    </form>
  )
}

/** What goes with the message, each with a button that removes it. */
function Attachments(props: {
  readonly attached: readonly File[]
  readonly images: readonly string[]
  readonly setAttached: (files: readonly File[]) => void
  readonly setImages: (urls: readonly string[]) => void
}) {
  const { attached, images, setAttached, setImages } = props
  return (
    <>
      {attached.length > 0 && (
        <div className="thumbs">
          {attached.map((file) => (
            <button
              key={`${file.name} ${file.size} ${file.lastModified}`}
              type="button"
              className="chip"
              aria-label={`Remove ${file.name}`}
              onClick={() => setAttached(attached.filter((one) => one !== file))}
            >
              <Icon name="file" /> {firstChars(file.name, 60)} <Icon name="close" />
            </button>
          ))}
        </div>
      )}
      {images.length > 0 && (
        <div className="thumbs">
          {images.map((url, at) => (
            <button
              key={lastChars(url, 40) + url.length}
              type="button"
              aria-label={`Remove picture ${at + 1}`}
              onClick={() => setImages(images.filter((one) => one !== url))}
            >
              <img src={url} alt="" />
            </button>
          ))}
        </div>
      )}
    </>
  )
}

function RunButtons(props: {
  readonly status: Info['execution_status'] | undefined
  readonly control: (name: Control) => void
}) {
  const { status, control } = props
  if (status === undefined) return null
  if (status !== 'running')
    return (
      <button type="button" onClick={() => control('runConversation')}>
        <Icon name="play" /> Run
      </button>
    )
  return (
    <>
      <button type="button" onClick={() => control('pauseConversation')}>
        <Icon name="pause" /> Pause
      </button>
      <button type="button" onClick={() => control('interruptConversation')}>
        <Icon name="stop" /> Interrupt
      </button>
    </>
  )
}

/** Stores files in a directory of the workspace; returns their paths from the workspace. */
async function uploadFiles(id: string, workspace: string, files: readonly File[]): Promise<string[]> {
  const paths: string[] = []
  for (const file of files) {
    // Two files of one name are two files, and no name leads out of the directory.
    const name = `${newKey().slice(0, 6)}-${lastChars(file.name.replaceAll(/[^\p{L}\p{N}._-]/gu, '_'), 100)}`
    const path = `uploads/${name}`
    const query = new URLSearchParams({ path: `${workspace.replace(/\/+$/, '')}/${path}` })
    await postFile(`api/conversations/${id}/file/upload?${query}`, file)
    paths.push(path)
  }
  return paths
}

/** 128 random bits; `randomUUID` is there on secure pages alone. */
function newKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('')
}

function readAsDataUrl(file: File): Promise<string> {
  return new Promise((resolve, reject) => {
    const reader = new FileReader()
    reader.onload = () => resolve(String(reader.result))
    reader.onerror = () => reject(reader.error ?? new Error('The file cannot be read'))
    reader.readAsDataURL(file)
  })
}
