export { exchangeWithLink } from './exchange.ts'
