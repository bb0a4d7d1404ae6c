import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Secret } from '@slipway/shared/redaction'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { Cipher } from './cipher.ts'

const text = fc.string({ unit: 'grapheme', maxLength: 200 })

test('sealed text opens again, differs each time, and does not contain the text', async () => {
  using directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  fc.assert(
    fc.property(text, (secret) => {
      const [one, two] = [cipher.seal(secret), cipher.seal(secret)]
      expect([cipher.open(one), cipher.open(two)]).toEqual([secret, secret])
      expect(one.equals(two)).toBe(false)
      if (secret.length > 3) expect(one.includes(secret)).toBe(false)
    }),
  )
})

test('changed, truncated or unsealed bytes do not open', async () => {
  using directory = temporaryDirectory()
  const cipher = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const sealed = cipher.seal('a secret of some length')
  for (let i = 0; i < sealed.length; i++) {
    const changed = Buffer.from(sealed)
    changed[i] = (changed[i] ?? 0) ^ 1
    expect(cipher.open(changed)).toBeUndefined()
    expect(cipher.open(sealed.subarray(0, i))).toBeUndefined()
  }
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
      expect(cipher.open(Buffer.from(bytes))).toBeUndefined()
    }),
  )
})

test('the key file is created once, with mode 0600, and used again', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'made', 'secret.key')
  const options = { directory: join(directory.path, 'made'), secretKey: undefined }
  const sealed = (await Cipher.open(options)).seal('x')
  const key = readFileSync(path)
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(readdirSync(join(directory.path, 'made'))).toEqual(['secret.key'])
  expect((await Cipher.open(options)).open(sealed)).toBe('x')
  expect(readFileSync(path)).toEqual(key)
})

test('the mode of a key file that its group may read is restricted, and logged without the key', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'secret.key')
  const lines: string[] = []
  const log = (...line: unknown[]) => void lines.push(JSON.stringify(line))
  const options = { directory: directory.path, secretKey: undefined, log }
  const sealed = (await Cipher.open(options)).seal('x')
  expect(lines).toEqual([])
  chmodSync(path, 0o660)
  expect((await Cipher.open(options)).open(sealed)).toBe('x')
  expect(statSync(path).mode & 0o777).toBe(0o600)
  expect(lines).toHaveLength(1)
  expect(lines[0]).toContain('"warn"')
  expect(lines[0]).not.toContain(readFileSync(path, 'utf8').trim())
})

test('a key file that every user may read or write is refused, with the command that restricts it', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'secret.key')
  const options = { directory: directory.path, secretKey: undefined }
  await Cipher.open(options)
  for (const mode of [0o644, 0o604, 0o602, 0o666]) {
    chmodSync(path, mode)
    await expect(Cipher.open(options)).rejects.toThrow(`chmod 600 ${path}`)
    const configured = { ...options, secretKey: new Secret('a configured key') }
    await expect(Cipher.open(configured)).rejects.toThrow(`chmod 600 ${path}`)
    expect(statSync(path).mode & 0o777).toBe(mode)
  }
})

test('a damaged key file is an error, and is not replaced', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'secret.key')
  const key = Buffer.alloc(32, 0xfb).toString('base64')
  for (const text of [
    'c2hvcnQ=\n',
    '',
    key.slice(0, 42),
    `${key.slice(0, 20)}.${key.slice(20)}`,
    `${key}=${key}`,
  ]) {
    writeFileSync(path, text, { mode: 0o600 })
    await expect(Cipher.open({ directory: directory.path, secretKey: undefined })).rejects.toThrow('damaged')
    expect(readFileSync(path, 'utf8')).toBe(text)
  }
})

test('a key file may be in either alphabet, without padding and on several lines', async () => {
  using directory = temporaryDirectory()
  const path = join(directory.path, 'secret.key')
  const options = { directory: directory.path, secretKey: undefined }
  const key = Buffer.alloc(32, 0xfb)
  const text = key.toString('base64')
  writeFileSync(path, text, { mode: 0o600 })
  const sealed = (await Cipher.open(options)).seal('x')
  const url = key.toString('base64url')
  for (const other of [
    url,
    `${url}=\n`,
    text.slice(0, 43),
    `${text.slice(0, 20)}\r\n${text.slice(20)}\r\n`,
  ]) {
    writeFileSync(path, other)
    const cipher = await Cipher.open(options)
    expect(cipher.open(sealed), other).toBe('x')
    expect(cipher.keyTexts).toEqual([text, url])
  }
})

test('a configured key needs no file and opens what it sealed; other keys do not', async () => {
  using one = temporaryDirectory()
  using two = temporaryDirectory()
  const configured = new Secret('a configured key')
  const sealed = (await Cipher.open({ directory: one.path, secretKey: configured })).seal('x')
  expect(existsSync(join(one.path, 'secret.key'))).toBe(false)
  expect((await Cipher.open({ directory: two.path, secretKey: configured })).open(sealed)).toBe('x')
  const others = [new Secret('a configured key.'), undefined]
  for (const secretKey of others) {
    expect((await Cipher.open({ directory: two.path, secretKey })).open(sealed)).toBeUndefined()
  }
})

test('with a configured key, the key file still opens what it sealed', async () => {
  using directory = temporaryDirectory()
  const before = await Cipher.open({ directory: directory.path, secretKey: undefined })
  const after = await Cipher.open({
    directory: directory.path,
    secretKey: new Secret('configured later'),
  })
  expect(after.open(before.seal('old'))).toBe('old')
  expect(after.open(after.seal('new'))).toBe('new')
  expect(before.open(after.seal('new'))).toBeUndefined()
})
