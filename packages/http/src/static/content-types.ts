const text = 'text/plain; charset=utf-8'

/** Types that browsers act on; texts are UTF-8. */
const types: Readonly<Record<string, string>> = {
  html: 'text/html; charset=utf-8',
  htm: 'text/html; charset=utf-8',
  xhtml: 'application/xhtml+xml',
  css: 'text/css; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  mjs: 'text/javascript; charset=utf-8',
  json: 'application/json',
  map: 'application/json',
  webmanifest: 'application/manifest+json',
  jsonl: 'application/x-ndjson',
  wasm: 'application/wasm',
  xml: 'application/xml',
  md: 'text/markdown; charset=utf-8',
  csv: 'text/csv; charset=utf-8',
  txt: text,
  log: text,
  svg: 'image/svg+xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  avif: 'image/avif',
  bmp: 'image/bmp',
  ico: 'image/vnd.microsoft.icon',
  pdf: 'application/pdf',
  woff: 'font/woff',
  woff2: 'font/woff2',
  ttf: 'font/ttf',
  otf: 'font/otf',
  mp3: 'audio/mpeg',
  wav: 'audio/wav',
  ogg: 'audio/ogg',
  m4a: 'audio/mp4',
  mp4: 'video/mp4',
  webm: 'video/webm',
  mov: 'video/quicktime',
  zip: 'application/zip',
  gz: 'application/gzip',
}

/** The content type of a file by its extension; undefined when that is unknown. */
export function contentTypeForPath(path: string): string | undefined {
  const name = path.slice(path.lastIndexOf('/') + 1)
  const at = name.lastIndexOf('.')
  const ending = at < 0 ? '' : name.slice(at + 1).toLowerCase()
  return Object.hasOwn(types, ending) ? types[ending] : undefined
}

/** Whether bytes from the start of a file look like text, as git decides it: text has no NUL. */
export function contentTypeForSample(sample: Buffer): string {
  return sample.includes(0) ? 'application/octet-stream' : text
}
