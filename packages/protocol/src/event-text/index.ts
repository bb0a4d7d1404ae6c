export * from './event-facts.ts'
export { eventMarkdown, toMarkdown } from './to-markdown.ts'
