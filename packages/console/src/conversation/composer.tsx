import type { CallOutput } from '@slipway/client'
import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type ClipboardEvent, type FormEvent, type KeyboardEvent, useRef, useState } from 'react'
import { agentServer } from '../api/session.ts'
import { Icon } from '../ui/icon.tsx'

/** Writes to the agent, and starts and stops it. */
export function Composer({
  id,
  info,
}: {
  readonly id: string
  readonly info: CallOutput<'getConversation'> | undefined
}) {
  const [text, setText] = useState('')
  const [images, setImages] = useState<readonly string[]>([])
  const files = useRef<HTMLInputElement>(null)
  const cache = useQueryClient()
  const refresh = () => cache.invalidateQueries({ queryKey: ['conversation', id] })
  const params = { conversation_id: id }
  // The key is of the message, so a repeat after a lost answer is stored once.
  const key = useRef(newKey())
  const send = useMutation({
    mutationFn: () =>
      agentServer.call('sendMessage', {
        params,
        headers: { 'idempotency-key': key.current },
        body: {
          content: [
            ...(text.trim() === '' ? [] : [{ type: 'text' as const, text }]),
            ...(images.length === 0 ? [] : [{ type: 'image' as const, image_urls: [...images] }]),
          ],
          run: true,
        },
      }),
    onSuccess: async () => {
      key.current = newKey()
      setText('')
      setImages([])
      await refresh()
    },
  })
  const control = useMutation({
    mutationFn: (name: 'runConversation' | 'pauseConversation' | 'interruptConversation') =>
      agentServer.call(name, { params }),
    onSettled: refresh,
  })
  const addImages = async (list: readonly File[]) => {
    const pictures = list.filter((file) => file.type.startsWith('image/'))
    const urls = await Promise.all(pictures.map(readAsDataUrl))
    setImages((old) => [...old, ...urls])
  }
  const paste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return
    event.preventDefault()
    void addImages([...event.clipboardData.files])
  }
  const submit = (event?: FormEvent) => {
    event?.preventDefault()
    if ((text.trim() !== '' || images.length > 0) && !send.isPending) send.mutate()
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) submit()
    if (event.key === 'Escape') (event.target as HTMLElement).blur()
  }
  const status = info?.execution_status
  const isRunning = status === 'running'
  return (
    <form className="composer" onSubmit={submit}>
      {images.length > 0 && (
        <div className="thumbs">
          {images.map((url, at) => (
            <button
              key={url.slice(-40) + url.length}
              type="button"
              aria-label={`Remove picture ${at + 1}`}
              onClick={() => setImages(images.filter((one) => one !== url))}
            >
              <img src={url} alt="" />
            </button>
          ))}
        </div>
      )}
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
          accept="image/*"
          multiple
          hidden
          onChange={(event) => void addImages([...(event.target.files ?? [])])}
        />
        <button
          type="button"
          className="ghost"
          aria-label="Add pictures"
          onClick={() => files.current?.click()}
        >
          <Icon name="image" />
        </button>
        <span className="spacer" />
        {isRunning ? (
          <>
            <button type="button" onClick={() => control.mutate('pauseConversation')}>
              <Icon name="pause" /> Pause
            </button>
            <button type="button" onClick={() => control.mutate('interruptConversation')}>
              <Icon name="stop" /> Interrupt
            </button>
          </>
        ) : (
          status !== undefined && (
            <button type="button" onClick={() => control.mutate('runConversation')}>
              <Icon name="play" /> Run
            </button>
          )
        )}
        <button
          type="submit"
          className="primary"
          disabled={send.isPending || (text.trim() === '' && images.length === 0)}
        >
          <Icon name="send" /> Send
        </button>
      </div>
    </form>
  )
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
