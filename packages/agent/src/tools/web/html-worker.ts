import { parentPort } from 'node:worker_threads'
import { htmlText } from './html-text.ts'

/** The thread of `HtmlThread`: a page in, its text out. An error ends it. */
parentPort?.on('message', (page: Parameters<typeof htmlText>[0]) => parentPort?.postMessage(htmlText(page)))
