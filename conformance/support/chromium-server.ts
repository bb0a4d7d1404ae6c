import { chromium } from 'playwright-core'
import { launchOptions } from './shared-browser.ts'

/** A Chromium that the files of a run share. Prints its address; ends with the run, whose reaper kills it. */
const [executablePath = ''] = process.argv.slice(2)
const server = await chromium.launchServer(launchOptions(executablePath))
process.stdout.write(`${server.wsEndpoint()}\n`)
