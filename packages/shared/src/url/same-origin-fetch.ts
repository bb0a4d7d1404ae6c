const maxRedirects = 5

export class RedirectError extends Error {
  override readonly name = 'RedirectError'
}

/**
 * A fetch for requests with a secret, in their headers, address or body. It follows redirects within the
 * origin only, where plain fetch sends headers and bodies on to any server that an answer names. Rejects for
 * other redirects with a RedirectError that names both origins.
 */
export function sameOriginFetch(fetch: typeof globalThis.fetch = globalThis.fetch) {
  return async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
    let url = String(input)
    for (let redirects = 0; ; redirects++) {
      const response = await fetch(url, { ...init, redirect: 'manual' })
      if (!isRedirect(response)) return response
      await response.body?.cancel()
      const { origin } = new URL(url)
      const target = URL.parse(response.headers.get('location') ?? '', url)
      if (target?.origin !== origin || origin === 'null')
        throw new RedirectError(
          `${origin} redirects to ${target?.origin ?? 'an unknown address'}, which does not get the credential of the request: use the address of the server itself`,
        )
      if (redirects === maxRedirects || !keepsMethod(response, init))
        throw new RedirectError(
          `${origin} redirects a request that cannot be repeated: use the address of the server itself`,
        )
      url = target.href
    }
  }
}

/** Browsers hide where a redirect leads. */
function isRedirect({ status, type }: Response): boolean {
  return type === 'opaqueredirect' || [301, 302, 303, 307, 308].includes(status)
}

function keepsMethod({ status }: Response, { method = 'GET', body }: RequestInit): boolean {
  if (body != null && typeof body !== 'string' && !(body instanceof URLSearchParams)) return false
  return status === 307 || status === 308 || /^(?:GET|HEAD)$/i.test(method)
}
