import { createHash, createHmac } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'

/** Keys as Amazon knows them. */
export interface AwsKeys {
  readonly id: string
  readonly secret: string
  readonly token?: string | undefined
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')
const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest()

/**
 * What is wrong with the signature of a POST request, in Amazon's words; undefined: nothing. By
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
 */
export function signatureFault(
  path: string,
  headers: IncomingHttpHeaders,
  body: string,
  keys: AwsKeys,
): string | undefined {
  const date = String(headers['x-amz-date'])
  const match =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/((\d{8})\/([\w-]+)\/bedrock\/aws4_request), SignedHeaders=([\w;-]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    )
  if (match === null) return 'Missing Authentication Token'
  const [, id, scope, day = '', region = '', names = '', signature] = match
  if (id !== keys.id || headers['x-amz-security-token'] !== keys.token)
    return 'The security token included in the request is invalid.'
  if (!/^\d{8}T\d{6}Z$/.test(date) || !date.startsWith(day)) return 'Date in Credential scope does not match'
  const signed = names.split(';')
  const needed = ['host', ...Object.keys(headers).filter((name) => name.startsWith('x-amz-'))]
  const missing = needed.filter((name) => !signed.includes(name))
  if (missing.length > 0) return `'${missing}' must be a 'SignedHeader' in the AWS Authorization.`
  // Each segment is encoded once more than it is sent.
  const encodedPath = path.split('/').map(encodeURIComponent).join('/')
  const lines = signed.map((name) => `${name}:${String(headers[name]).trim().replace(/ +/g, ' ')}\n`)
  const canonical = ['POST', encodedPath, '', lines.join(''), names, sha256(body)].join('\n')
  const text = ['AWS4-HMAC-SHA256', date, scope, sha256(canonical)].join('\n')
  const key = [day, region, 'bedrock', 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${keys.secret}`)
  if (hmac(key, text).toString('hex') === signature) return undefined
  return 'The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method.'
}
