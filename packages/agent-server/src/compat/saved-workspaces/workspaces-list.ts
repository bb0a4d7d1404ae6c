import {
  type WorkspacesList as Lists,
  Problem,
  type WorkspaceItem,
  type WorkspaceParent,
  workspacesList,
} from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'
import type { DocumentStore, JsonDocument } from '@slipway/storage'
import { openDocument } from '../../core/documents/document.ts'

const maxItems = 5000
const schemaVersion = 1

interface StoredLists extends Lists {
  readonly schema_version: number
}

/**
 * The folders that clients offer to work in, each path once. Changes are durable; a document that is damaged
 * or of a later version is a Problem `conflict`.
 */
export class WorkspacesList {
  readonly #document: JsonDocument<StoredLists>

  constructor({ documents }: { readonly documents: DocumentStore }) {
    const empty = { schema_version: schemaVersion, workspaces: [], workspaceParents: [] }
    this.#document = openDocument(documents, 'workspaces.json', {
      empty,
      parse: parseLists,
      headline: 'Workspaces file is corrupted, or of a later version',
    })
  }

  async read(): Promise<Lists> {
    return workspacesList.parse(await this.#document.read())
  }

  /** Existing paths stay unchanged. A Problem `conflict` above the limit. */
  async add(items: readonly WorkspaceItem[]): Promise<Lists> {
    return await this.#update((lists) => {
      const workspaces = appendNew(lists.workspaces, items)
      return workspaces === lists.workspaces ? lists : { ...lists, workspaces }
    })
  }

  async addParents(items: readonly WorkspaceParent[]): Promise<Lists> {
    return await this.#update((lists) => {
      const workspaceParents = appendNew(lists.workspaceParents, items)
      return workspaceParents === lists.workspaceParents ? lists : { ...lists, workspaceParents }
    })
  }

  /** Answers the remaining list; a Problem `not_found` when no item has this path. */
  async remove(path: string): Promise<Lists> {
    return await this.#update((lists) => ({
      ...lists,
      workspaces: withoutPath(lists.workspaces, path, 'Workspace not found'),
    }))
  }

  async removeParent(path: string): Promise<Lists> {
    return await this.#update((lists) => ({
      ...lists,
      workspaceParents: withoutPath(lists.workspaceParents, path, 'Workspace parent not found'),
    }))
  }

  async #update(transform: (lists: StoredLists) => StoredLists): Promise<Lists> {
    return workspacesList.parse(await this.#document.update(transform))
  }
}

/** A file written by hand may have no version. */
function parseLists(value: unknown): StoredLists {
  const version = isRecord(value) ? (value.schema_version ?? schemaVersion) : undefined
  if (version !== schemaVersion) throw new Error('not of a version that this server reads')
  return { schema_version: schemaVersion, ...workspacesList.parse(value) }
}

/** The same list when there is nothing new. */
function appendNew<T extends { readonly path: string }>(list: T[], items: readonly T[]): T[] {
  const byPath = new Map([...items].reverse().map((item) => [item.path, item]))
  for (const { path } of list) byPath.delete(path)
  const added = items.filter((item) => byPath.get(item.path) === item)
  if (added.length === 0) return list
  if (list.length + added.length > maxItems)
    throw new Problem('conflict', `No more than ${maxItems} may be in this list`)
  return [...list, ...added]
}

function withoutPath<T extends { readonly path: string }>(list: T[], path: string, missing: string): T[] {
  const remaining = list.filter((item) => item.path !== path)
  if (remaining.length === list.length) throw new Problem('not_found', missing)
  return remaining
}
