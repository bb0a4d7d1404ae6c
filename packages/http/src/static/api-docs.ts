import { hash } from 'node:crypto'
import { readFile, realpath } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { Problem } from '@slipway/protocol'
import { resolveWithin } from '@slipway/shared/fs'
import type { Reply } from '../core/handler.ts'
import { emptyBody } from '../core/reply.ts'
import { contentTypeForPath } from './content-types.ts'

const prefix = '/docs'

/**
 * The page that shows the API (Swagger UI) and its files, below `/docs`. All links are relative, so a proxy
 * may add a prefix.
 */
export async function apiDocsReply(
  url: string,
  header: (name: string) => string | undefined,
): Promise<Reply> {
  const path = url.split(/[?#]/, 1)[0] ?? ''
  const name = path.slice(prefix.length)
  if (name === '' || name === '/') {
    return {
      bytes: Buffer.from(page(name === '' ? `.${prefix}/static` : './static')),
      contentType: 'text/html; charset=utf-8',
      headers: { 'content-security-policy': contentSecurityPolicy },
    }
  }
  if (name === '/static/index.html') return { status: 302, bytes: emptyBody, headers: { location: '..' } }
  if (name === '/static/swagger-initializer.js') {
    return { bytes: Buffer.from(initializer), contentType: 'text/javascript; charset=utf-8' }
  }
  const file = /^\/static\/([\w.-]+)$/.exec(name)?.[1]
  const resolved = file === undefined ? undefined : await resolveWithin(await filesDirectory(), file)
  if (resolved?.kind !== 'file') throw new Problem('not_found', 'Not Found')
  const { bytes, etag } = files.get(resolved.path) ?? (await readDocsFile(resolved.path))
  const headers = { 'cache-control': 'no-cache', etag, 'x-content-type-options': 'nosniff' }
  if (header('if-none-match') === etag) return { status: 304, bytes: emptyBody, headers }
  const contentType = contentTypeForPath(resolved.path) ?? 'application/octet-stream'
  return { bytes, contentType, headers }
}

interface DocsFile {
  readonly bytes: Buffer
  readonly etag: string
}

/** By path: what a browser has asked for is kept, with its digest and its compressed form. */
const files = new Map<string, DocsFile>()

async function readDocsFile(path: string): Promise<DocsFile> {
  const bytes = await readFile(path)
  const file = { bytes, etag: `"${hash('sha256', bytes, 'base64url').slice(0, 27)}"` }
  files.set(path, file)
  return file
}

/** Its own scripts alone. Swagger UI sets styles of elements and has its icons in data addresses. */
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

/** The package brings the files of Swagger UI; its plugin is not loaded. */
function filesDirectory(): Promise<string> {
  const manifest = createRequire(import.meta.url).resolve('@fastify/swagger-ui/package.json')
  return realpath(join(dirname(manifest), 'static'))
}

function page(files: string): string {
  return `<!DOCTYPE html>
<html lang="en">
  <head>
    <meta charset="UTF-8">
    <title>API</title>
    <link rel="stylesheet" href="${files}/swagger-ui.css">
    <link rel="stylesheet" href="${files}/index.css">
    <link rel="icon" type="image/png" href="${files}/favicon-32x32.png" sizes="32x32">
    <style>.swagger-ui .topbar { display: none } body > label { display: block; padding: 1em; font-family: sans-serif }</style>
  </head>
  <body>
    <label>Key of this server, for calls from this page: <input id="key" type="password" autocomplete="off"></label>
    <div id="swagger-ui"></div>
    <script src="${files}/swagger-ui-bundle.js"></script>
    <script src="${files}/swagger-ui-standalone-preset.js"></script>
    <script src="${files}/swagger-initializer.js"></script>
  </body>
</html>
`
}

const initializer = `window.onload = () => {
  const here = location.href.split(/[?#]/, 1)[0].replace(/\\/?$/, '/')
  window.ui = SwaggerUIBundle({
    url: new URL('../openapi.json', here).href,
    oauth2RedirectUrl: new URL('static/oauth2-redirect.html', here).href,
    dom_id: '#swagger-ui',
    deepLinking: true,
    docExpansion: 'none',
    filter: true,
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [SwaggerUIBundle.plugins.DownloadUrl],
    layout: 'StandaloneLayout',
    validatorUrl: null,
    // The document declares no security scheme. The key stays in the field.
    requestInterceptor: (request) => {
      const key = document.getElementById('key').value.trim()
      const isOwn = new URL(request.url, location.href).origin === location.origin
      if (key !== '' && isOwn) request.headers['X-Session-API-Key'] = key
      return request
    },
  })
}
`
