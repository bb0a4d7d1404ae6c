import { defineConfig } from 'vite'

/**
 * Relative addresses, so that the pages work under any path; the servers put a `<base>` into `index.html`
 * by the depth of the address. Nothing is inlined: the content security policy forbids inline scripts.
 */
export default defineConfig({
  root: import.meta.dirname,
  base: './',
  build: {
    outDir: 'dist',
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    reportCompressedSize: false,
    // Directives of server components mean nothing in a bundle for browsers.
    rolldownOptions: { checks: { moduleLevelDirective: false } },
  },
})
