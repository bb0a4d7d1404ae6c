/**
 * Folders, files and functions of today that are larger than `maxSizes` of check-sizes.ts, with the size that
 * each may have. The list only shrinks: lower a size when its place gets smaller.
 */
export const sizeExceptions: Readonly<Record<string, number>> = {
  'console/src/conversation/composer.tsx Composer': 158,
  'console/src/conversation/filter-bar.tsx FilterBar': 129,
  'console/src/list/page.tsx ListPage': 185,
}
