import { fileURLToPath } from 'node:url'
import { type ContentBlock, RequestError } from '@agentclientprotocol/sdk/unstable'
import type { CallInput } from '@slipway/client'

type MessageContent = NonNullable<NonNullable<CallInput<'sendMessage'>['body']>['content']>

/** The content of a message: texts, pictures, and the files and texts that the editor refers to. */
export function messageContent(blocks: readonly ContentBlock[]): MessageContent {
  const content = blocks.map(contentPart)
  if (content.every((part) => 'text' in part && part.text.trim() === ''))
    throw new RequestError(-32602, 'The prompt is empty.')
  return content
}

function contentPart(block: ContentBlock): MessageContent[number] {
  switch (block.type) {
    case 'text':
      return text(block.text)
    case 'image':
      return image(block.mimeType, block.data)
    case 'resource_link':
      return text(`[${block.title ?? block.name}](${pathOf(block.uri)})`)
    case 'resource': {
      const { resource } = block
      if ('text' in resource)
        return text(`<resource uri=${JSON.stringify(pathOf(resource.uri))}>\n${resource.text}\n</resource>`)
      if (/^image\//.test(resource.mimeType ?? '')) return image(resource.mimeType ?? '', resource.blob)
      return text(`[a file that is no text](${pathOf(resource.uri)})`)
    }
    default:
      throw new RequestError(-32602, `Content of the type ${block.type} is not supported.`)
  }
}

const text = (words: string) => ({ type: 'text' as const, text: words })

const image = (type: string, data: string) => ({
  type: 'image' as const,
  image_urls: [`data:${type};base64,${data}`],
})

/** Tools take paths. */
function pathOf(uri: string): string {
  try {
    return uri.startsWith('file://') ? fileURLToPath(uri) : uri
  } catch {
    return uri
  }
}
