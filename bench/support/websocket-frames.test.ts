import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FrameCounter } from './websocket-frames.ts'

/** A frame as a server sends it. */
function frame(opcode: number, size: number): Buffer {
  const head = size < 126 ? Buffer.from([0x80 | opcode, size]) : Buffer.alloc(size < 65_536 ? 4 : 10)
  if (size >= 126) {
    head[0] = 0x80 | opcode
    head[1] = size < 65_536 ? 126 : 127
    if (size < 65_536) head.writeUInt16BE(size, 2)
    else head.writeBigUInt64BE(BigInt(size), 2)
  }
  return Buffer.concat([head, Buffer.alloc(size, 0x81)])
}

test('text frames are counted wherever the stream is cut, other frames are not', () => {
  const sent = fc.record({
    opcode: fc.constantFrom(1, 9),
    size: fc.constantFrom(0, 1, 125, 126, 1000, 65_535, 65_536),
  })
  fc.assert(
    fc.property(
      fc.array(sent, { maxLength: 6 }),
      fc.array(fc.integer({ min: 1, max: 70_000 })),
      (frames, cuts) => {
        const stream = Buffer.concat(frames.map(({ opcode, size }) => frame(opcode, size)))
        const counter = new FrameCounter()
        let ended = 0
        let at = 0
        for (const cut of [...cuts.flatMap((cut) => [cut, 1]), stream.length]) {
          ended += counter.count(stream.subarray(at, at + cut))
          at += cut
        }
        expect(ended).toBe(frames.filter(({ opcode }) => opcode === 1).length)
      },
    ),
  )
})
