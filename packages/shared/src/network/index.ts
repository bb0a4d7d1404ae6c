export { checkedLookup, isPublicAddress, lookupPublic, PrivateAddressError } from './public-address.ts'
export { fetchWithLookup, isLocalHost, publicFetch } from './public-fetch.ts'
