import { parentPort } from 'node:worker_threads'
import { type PdfRequest, pdfPages } from './pdf-pages.ts'

/** The thread of `readPdf`. */
parentPort?.on('message', async (request: PdfRequest) => parentPort?.postMessage(await pdfPages(request)))
