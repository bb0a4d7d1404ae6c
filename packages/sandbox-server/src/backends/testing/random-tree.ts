/**
 * Bodies of functions for `runInside`: they make a random file tree in the working directory, and describe
 * one.
 */

const helpers = `
const fs = require('node:fs')
const { createHash } = require('node:crypto')
const { execFileSync } = require('node:child_process')
const join = (folder, name) => Buffer.concat([folder, Buffer.from('/'), name])
`

/**
 * Names with blanks, line breaks, other scripts and bytes that are no UTF-8; all modes; links, holes, pipes.
 */
export function makeRandomTree(seed: number): string {
  return `${helpers}
let state = ${seed} >>> 0
const random = (below) => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return Math.floor((state / 2 ** 32) * below)
}
const odd = [' blank ', 'new\\nline', 'tab\\tname', '-rf', 'ünï çödé', '日本語', '$(id)', "quo'te\\"", '.hidden', 'back\\\\slash', '*', '.slipway', '.slipway-modes', 'a'.repeat(180)]
const bytes = [[0xff, 0xfe], [0xc3, 0x28], [0x80, 0x0a, 0x31], [0xe9, 0x74, 0xe9]]
const files = []
const later = []
let count = 0
const nextName = () => {
  count++
  const base = random(4) === 0 ? Buffer.from(bytes[random(bytes.length)]) : Buffer.from(odd[random(odd.length)])
  return Buffer.concat([base, Buffer.from(random(3) === 0 && count > 9 ? String(count) : '~' + count)])
}
const fill = (folder, depth) => {
  for (let n = 4 + random(8); n > 0; n--) {
    const path = join(folder, nextName())
    const kind = random(10)
    if (kind < 3 && depth < 4) {
      fs.mkdirSync(path)
      if (random(3) > 0) fill(path, depth + 1)
    } else if (kind === 3) fs.symlinkSync(random(2) ? Buffer.from('../' + 'x'.repeat(random(120)) + '\\xff', 'latin1') : Buffer.from('/etc/passwd'), path)
    else if (kind === 4 && files.length > 0) { fs.linkSync(files[random(files.length)], path); continue }
    else if (kind === 5) { execFileSync('mkfifo', ['tree/pipe' + count]); continue }
    else if (kind === 6) {
      const file = fs.openSync(path, 'w')
      fs.writeSync(file, 'begin')
      fs.ftruncateSync(file, 300_000 + random(3_000_000))
      fs.writeSync(file, 'middle', 200_000)
      fs.closeSync(file)
      files.push(path)
    } else {
      const size = random(3) === 0 ? 0 : random(40_000)
      fs.writeFileSync(path, Buffer.alloc(size, createHash('sha256').update(String(state)).digest()))
      files.push(path)
    }
    const moment = [random(2_000_000_000), random(1_000_000_000)]
    later.push([path, random(4) === 0 ? [0, 0o7777, 0o111, 0o444, 0o555][random(5)] : random(0o10000), moment])
  }
}
const root = Buffer.from('tree')
fs.mkdirSync(root)
fill(root, 0)
for (const [path, mode, [seconds, nanos]] of later) {
  if (fs.lstatSync(path).isSymbolicLink()) { fs.lutimesSync(path, seconds, seconds + nanos / 1e9); continue }
  fs.utimesSync(path, seconds, seconds + nanos / 1e9)
  fs.chmodSync(path, mode)
}
return later.length`
}

/** One line for each entry below a folder of the working directory. Modes are as before when it returns. */
export function describeTree(folder: string): string {
  return `${helpers}
const lines = []
const inodes = new Map()
const walk = (path) => {
  const stat = fs.lstatSync(path, { bigint: true })
  const mode = Number(stat.mode)
  const parts = [path.toString('hex'), mode.toString(8), stat.mtimeNs]
  if (stat.isSymbolicLink()) parts.push(fs.readlinkSync(path, 'buffer').toString('hex'))
  if (stat.isFile()) {
    const first = inodes.get(stat.ino) ?? path.toString('hex')
    inodes.set(stat.ino, first)
    fs.chmodSync(path, (mode & 0o7777) | 0o400)
    const content = fs.readFileSync(path)
    fs.chmodSync(path, mode & 0o7777)
    parts.push(first, stat.size, createHash('sha256').update(content).digest('hex'), stat.size > 250_000n && stat.blocks * 512n < stat.size / 2n)
  }
  lines.push(parts.map(String).join(' '))
  if (!stat.isDirectory()) return
  fs.chmodSync(path, (mode & 0o7777) | 0o700)
  for (const name of fs.readdirSync(path, { encoding: 'buffer' }).sort(Buffer.compare)) walk(join(path, name))
  fs.chmodSync(path, mode & 0o7777)
}
walk(Buffer.from(${JSON.stringify(folder)}))
return lines`
}
