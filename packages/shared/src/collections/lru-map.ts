/** LRU (least recently used) map, bounded in entries or in the sum of their sizes. */
export { LRUCache as LruMap } from 'lru-cache'
