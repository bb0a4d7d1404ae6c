import { setTimeout as sleep } from 'node:timers/promises'
import { Semaphore } from '@slipway/shared/async'

const downloads = new Semaphore(2)
const download = async (name: string) => {
  await sleep(10)
  return `${name} is here`
}
console.log(await Promise.all(['a', 'b', 'c'].map((name) => downloads.run(() => download(name)))))
