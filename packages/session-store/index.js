/** See index.d.ts. One plain module, so that it works from a folder, an archive or a repository. */
export class SlipwaySessionStore {
  #url
  #headers
  #fetch

  constructor({ url, apiKey, fetch = globalThis.fetch }) {
    this.#url = `${url.replace(/\/+$/, '')}/api/session-store`
    this.#headers = apiKey === undefined ? {} : { 'x-session-api-key': apiKey }
    this.#fetch = fetch
  }

  async append(key, entries) {
    if (entries.length === 0) return
    const body = entries.map((entry) => JSON.stringify(entry)).join('\n')
    await this.#call('POST', 'entries', key, body)
  }

  async load(key) {
    const text = await (await this.#call('GET', 'entries', key)).text()
    const lines = text.split('\n').filter((line) => line !== '')
    return lines.length === 0 ? null : lines.map((line) => JSON.parse(line))
  }

  async listSessions(projectKey) {
    const sessions = await (await this.#call('GET', 'sessions', { projectKey })).json()
    return sessions.map(({ session_id, mtime }) => ({ sessionId: session_id, mtime }))
  }

  async delete(key) {
    await this.#call('DELETE', 'entries', key)
  }

  async listSubkeys({ projectKey, sessionId }) {
    return await (await this.#call('GET', 'subpaths', { projectKey, sessionId })).json()
  }

  async #call(method, path, { projectKey, sessionId, subpath }, body) {
    const named = { project_key: projectKey, session_id: sessionId, subpath }
    const query = new URLSearchParams(Object.entries(named).filter(([, value]) => value !== undefined))
    const headers = body === undefined ? {} : { 'content-type': 'application/x-ndjson' }
    // A redirect would send the key elsewhere.
    const response = await this.#fetch(`${this.#url}/${path}?${query}`, {
      ...{ method, body, redirect: 'error', headers: { ...this.#headers, ...headers } },
    })
    if (!response.ok)
      throw new Error(`Slipway answers ${response.status} to ${method} ${path}: ${await response.text()}`)
    return response
  }
}
