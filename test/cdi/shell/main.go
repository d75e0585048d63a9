// Shell takes the place of bash in CDI's image: CDI runs 'bash -c echo' in a pod so that the volume of a claim is provisioned on a node.
package main

func main() {}
