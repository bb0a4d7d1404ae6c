import type { Llm } from '@slipway/protocol'

export function bedrockRegion({ aws_region_name: region }: Llm): string {
  return region ?? 'us-east-1'
}

/**
 * `fetch` that signs requests to Bedrock with the access keys of the settings (SigV4), unless they have a key
 * instead. A signature covers the body: it is made last, after every edit, for each request again.
 */
export function signingFetch(send: typeof fetch, llm: Llm): typeof fetch {
  const { aws_access_key_id: accessKeyId, aws_secret_access_key: secretAccessKey } = llm
  if (llm.api_key !== undefined || accessKeyId === undefined || secretAccessKey === undefined) return send
  return async (input, init) => {
    const { AwsV4Signer } = await import('aws4fetch')
    const signer = new AwsV4Signer({
      ...{ accessKeyId, secretAccessKey, region: bedrockRegion(llm), service: 'bedrock' },
      ...(llm.aws_session_token !== undefined && { sessionToken: llm.aws_session_token }),
      url: String(input),
      method: init?.method ?? 'GET',
      ...(init?.headers && { headers: init.headers }),
      ...(init?.body && { body: init.body }),
    })
    const { url, headers } = await signer.sign()
    return await send(url, { ...init, headers: Object.fromEntries(headers) })
  }
}
