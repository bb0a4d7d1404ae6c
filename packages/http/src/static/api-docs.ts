import Fastify, { type FastifyInstance } from 'fastify'
import type { Reply } from '../core/handler.ts'

/**
 * The page that shows the API to a reader, with all that it loads, under `/docs`. It is put together when it is first
 * asked for, because few servers ever show it.
 */
export class ApiDocs {
  readonly #document: object
  #page: Promise<FastifyInstance> | undefined

  constructor(document: object) {
    this.#document = document
  }

  async get(url: string): Promise<Reply> {
    this.#page ??= createSwaggerUi(this.#document)
    const { statusCode, headers, rawPayload } = await (await this.#page).inject({ method: 'GET', url })
    const { location, etag } = headers
    return {
      status: statusCode,
      bytes: rawPayload,
      contentType: String(headers['content-type'] ?? 'text/plain'),
      headers: {
        ...(location === undefined ? {} : { location: String(location) }),
        ...(etag === undefined ? {} : { etag }),
      },
    }
  }
}

async function createSwaggerUi(document: object): Promise<FastifyInstance> {
  const { fastifySwaggerUi } = await import('@fastify/swagger-ui')
  const page = Fastify()
  await page.register(
    Object.assign(async () => void page.decorate('swagger', () => document), swaggerPluginMeta),
  )
  const css = [{ filename: 'plain.css', content: '.swagger-ui .topbar { display: none }' }]
  await page.register(fastifySwaggerUi, {
    routePrefix: '/docs',
    // The page finds its files relative to its own address, also behind a prefix.
    indexPrefix: '.',
    staticCSP: true,
    theme: { title: 'API', css },
  })
  return page
}

/** The page asks for the plugin that would make the document from the routes; ours is made already. */
const swaggerPluginMeta = { [Symbol.for('plugin-meta')]: { name: '@fastify/swagger' } }
