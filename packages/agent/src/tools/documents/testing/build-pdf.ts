import { deflateSync } from 'node:zlib'

/** A page of a PDF of tests: a text, or a picture of one colour. */
type Page = string | { readonly width: number; readonly height: number; readonly pixels: Buffer }

export function grayPicture(width: number, height: number): Page {
  return { width, height, pixels: deflateSync(Buffer.alloc(width * height * 3, 200)) }
}

/** A small, valid PDF. `count`: what it says of the number of its pages. */
export function buildPdf(pages: readonly Page[], count = pages.length): Buffer {
  const objects: Buffer[] = [Buffer.from('<< /Type /Catalog /Pages 2 0 R >>'), Buffer.alloc(0)]
  const add = (body: string | Buffer) => objects.push(Buffer.from(body))
  const stream = (dictionary: string, data: string | Buffer) =>
    Buffer.concat([
      Buffer.from(`<< ${dictionary} /Length ${data.length} >>\nstream\n`),
      Buffer.from(data),
      Buffer.from('\nendstream'),
    ])
  const font = add('<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>')
  const kids = pages.map((page) => {
    const isText = typeof page === 'string'
    const picture = isText
      ? 0
      : add(
          stream(
            `/Type /XObject /Subtype /Image /Width ${page.width} /Height ${page.height} /ColorSpace /DeviceRGB /BitsPerComponent 8 /Filter /FlateDecode`,
            page.pixels,
          ),
        )
    const drawing = isText ? `BT /F 12 Tf 72 700 Td (${page}) Tj ET` : 'q 500 0 0 500 0 0 cm /I Do Q'
    const contents = add(stream('', drawing))
    const pictures = isText ? '' : `/XObject << /I ${picture} 0 R >>`
    const resources = `<< /Font << /F ${font} 0 R >> ${pictures} >>`
    return add(
      `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents ${contents} 0 R /Resources ${resources} >>`,
    )
  })
  objects[1] = Buffer.from(
    `<< /Type /Pages /Count ${count} /Kids [${kids.map((kid) => `${kid} 0 R`).join(' ')}] >>`,
  )
  return joinObjects(objects)
}

function joinObjects(objects: readonly Buffer[]): Buffer {
  const parts = [Buffer.from('%PDF-1.7\n')]
  const places: string[] = []
  let at = 9
  for (const [index, body] of objects.entries()) {
    const part = Buffer.concat([Buffer.from(`${index + 1} 0 obj\n`), body, Buffer.from('\nendobj\n')])
    places.push(`${String(at).padStart(10, '0')} 00000 n \n`)
    parts.push(part)
    at += part.length
  }
  const size = objects.length + 1
  const table = `xref\n0 ${size}\n0000000000 65535 f \n${places.join('')}`
  const trailer = `trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${at}\n%%EOF`
  return Buffer.concat([...parts, Buffer.from(table + trailer)])
}
