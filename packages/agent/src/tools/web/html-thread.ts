import { type ReadingLimits, ReadingThread } from '../core/reading-thread.ts'
import type { htmlText } from './html-text.ts'

/** Reads foreign pages. */
export class HtmlThread extends ReadingThread<Parameters<typeof htmlText>[0], string> {
  constructor(limits: ReadingLimits) {
    super({ ...limits, name: 'html', worker: new URL('./html-worker.ts', import.meta.url) })
  }
}
